//! `payload = Option<…>`: a tombstone is a message too.

use inbox_core::{Codec, DecodeError, Subscription};

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = Option<OrderPlaced>,
    id = payload(order_id, tombstone = header("event-id")),
    key = payload(order_id, tombstone = record),
)]
struct ByField;

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = ::std::option::Option<OrderPlaced>,
    id = payload(order_id, tombstone = cloud_event),
    key = payload(order_id, tombstone = partition,),
)]
struct WholePath;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = Option<OrderPlaced>, id = offset, key = record)]
struct WithoutField;

struct Csv;

impl Codec<OrderPlaced> for Csv {
    fn decode(&self, value: &[u8]) -> Result<OrderPlaced, DecodeError> {
        Ok(OrderPlaced { order_id: str::from_utf8(value)?.to_owned() })
    }
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = Option<OrderPlaced>, id = offset, key = record, codec = Csv)]
struct OwnCodec;

fn definition<S: Subscription<Payload = Option<OrderPlaced>>>(handler: &S) {
    let _ = handler.definition();
}

fn main() {
    definition(&ByField);
    definition(&WholePath);
    definition(&WithoutField);
    definition(&OwnCodec);
}
