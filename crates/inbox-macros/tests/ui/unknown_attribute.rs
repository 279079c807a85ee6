use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = OrderPlaced,
    id = offset,
    key = record,
    backoff(max_attempts = 10, base = "1s"),
    window = "7d",
    dedup = none,
)]
struct Unknown;

#[derive(Subscription)]
#[inbox(nmae = "a", topci = "a", payload = OrderPlaced, id = offset, keys = record)]
struct Misspelt;

#[derive(Subscription)]
#[inbox("a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
struct WithoutWord;

fn main() {}
