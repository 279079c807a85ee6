use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
struct OnField {
    #[inbox(name = "b")]
    limit: i64,
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
enum OnVariant {
    #[inbox(name = "b")]
    Strict,
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
union OnUnion {
    a: i64,
    b: u64,
}

fn main() {}
