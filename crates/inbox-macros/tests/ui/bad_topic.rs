use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "", payload = OrderPlaced, id = offset, key = record)]
struct Empty;

#[derive(Subscription)]
#[inbox(name = "a", topics("orders placed", "orders.*", ".."), payload = OrderPlaced, id = offset, key = record)]
struct NoNames;

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
             aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
             aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    payload = OrderPlaced,
    id = offset,
    key = record
)]
struct TooLong;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", topics("b", "a"), payload = OrderPlaced, id = offset, key = record)]
struct Twice;

#[derive(Subscription)]
#[inbox(name = "a", topic = 'a', payload = OrderPlaced, id = offset, key = record)]
struct Letter;

#[derive(Subscription)]
#[inbox(name = "a", topics(), payload = OrderPlaced, id = offset, key = record)]
struct EmptyList;

#[derive(Subscription)]
#[inbox(name = "a", topics = "a", payload = OrderPlaced, id = offset, key = record)]
struct NoList;

#[derive(Subscription)]
#[inbox(name = "a", topic_pattern = "", payload = OrderPlaced, id = offset, key = record)]
struct EmptyPattern;

fn main() {}
