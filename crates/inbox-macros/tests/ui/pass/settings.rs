//! Codec, filter, batch size and time limit.

use inbox_core::{Codec, DecodeError, Json, Record, Subscription};

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

struct Csv {
    separator: char,
}

impl Csv {
    fn separated_by(separator: char) -> Self {
        Self { separator }
    }
}

impl Codec<OrderPlaced> for Csv {
    fn decode(&self, value: &[u8]) -> Result<OrderPlaced, DecodeError> {
        let first = str::from_utf8(value)?.split(self.separator).next();
        Ok(OrderPlaced { order_id: first.ok_or("no column")?.to_owned() })
    }
}

mod wanted {
    use inbox_core::Record;

    pub(crate) fn has_key(record: &Record) -> bool {
        record.key.is_some()
    }
}

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = OrderPlaced,
    id = offset,
    key = payload(order_id),
    codec = Csv::separated_by(';'),
    filter = wanted::has_key,
    max_batch = 1,
    time_limit = "1m 30s 5ms",
    start = time(inbox_core::Timestamp(5)),
)]
struct All;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record, codec = Json)]
#[inbox(filter = |record: &Record| record.value.is_some(), time_limit = "500ms", max_batch = 1_000, start = committed)]
struct ByClosure;

fn main() {
    let _ = All.definition();
    let _ = ByClosure.definition();
}
