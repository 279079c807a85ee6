use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = "OrderPlaced",
    id = offset,
    key = record,
    codec = "Json",
    filter = "wanted",
    max_batch = "10",
    on_dead = "block",
    crate = "inbox_core",
)]
struct Quoted;

fn main() {}
