use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(name, topic("a"), payload =, id = , key)]
struct NoValues;

#[derive(Subscription)]
#[inbox(name = "a" topic = "a", payload = OrderPlaced id = offset, key = record)]
struct NoCommas;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = struct, id = offset, key = record, codec = (a b), filter = ;)]
struct NoRust;

#[derive(Subscription)]
#[inbox]
struct NoList;

#[derive(Subscription)]
#[inbox = "a"]
struct NoListButAValue;

fn main() {}
