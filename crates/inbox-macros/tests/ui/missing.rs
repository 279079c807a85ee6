use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
struct NothingSaid;

#[derive(Subscription)]
#[inbox(name = "a", payload = OrderPlaced, key = payload(order_id))]
struct SomeMissing;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", id = offset, key = record)]
struct PayloadMissing;

fn main() {}
