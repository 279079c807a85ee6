//! `crate = …`: where inbox-core is, if it is not among the dependencies.

mod vendored {
    pub(crate) use inbox_core as messages;
}

use vendored::messages::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(crate = crate::vendored::messages, name = "a", topic = "a", payload = Option<OrderPlaced>)]
#[inbox(id = payload(order_id, tombstone = offset), key = record, time_limit = "1s", max_batch = 1)]
struct Relative;

#[derive(Subscription)]
#[inbox(crate = ::inbox_core, name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
struct Absolute;

fn main() {
    let _ = Relative.definition();
    let _ = Absolute.definition();
}
