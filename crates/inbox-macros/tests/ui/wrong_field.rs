use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
    customer: Customer,
}

#[derive(serde::Deserialize)]
struct Customer {
    id: u64,
}

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = OrderPlaced,
    id = payload(orderid),
    key = payload(customer.number),
)]
struct NoSuchField;

fn main() {}
