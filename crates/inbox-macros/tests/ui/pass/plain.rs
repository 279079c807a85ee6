//! Each rule, on each kind of type.

use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(name = "payments.reserve", topic = "orders.placed", payload = OrderPlaced, id = header("event-id"), key = payload(order_id))]
struct ReservePayment;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = cloud_event, key = record)]
struct Tuple(#[allow(dead_code)] i64);

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = payload(order_id), key = partition)]
#[allow(dead_code)]
struct Braced {
    limit_cents: i64,
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
#[allow(dead_code)]
enum Variants {
    Strict,
    Lenient { limit_cents: i64 },
}

fn definition<S: Subscription<Payload = OrderPlaced>>(handler: &S) {
    let _ = handler.definition();
}

fn main() {
    definition(&ReservePayment);
    definition(&Tuple(1));
    definition(&Braced { limit_cents: 1 });
    definition(&Variants::Strict);
}
