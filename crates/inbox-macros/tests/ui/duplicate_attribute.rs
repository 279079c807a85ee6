use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(name = "a", name = "b", topic = "a", payload = OrderPlaced, id = offset, key = record)]
struct Twice;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset)]
#[inbox(key = record, id = header("event-id"))]
struct InTwoAttributes;

fn main() {}
