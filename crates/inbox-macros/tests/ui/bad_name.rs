use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(name = "", topic = "a", payload = OrderPlaced, id = offset, key = record)]
struct Empty;

#[derive(Subscription)]
#[inbox(name = "reserve payments", topic = "a", payload = OrderPlaced, id = offset, key = record)]
struct WithSpace;

#[derive(Subscription)]
#[inbox(
    name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    topic = "a",
    payload = OrderPlaced,
    id = offset,
    key = record
)]
struct TooLong;

#[derive(Subscription)]
#[inbox(name = 7, topic = "a", payload = OrderPlaced, id = offset, key = record)]
struct Number;

fn main() {}
