use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    cents: f64,
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = payload(cents))]
struct ByFloat;

fn main() {}
