//! Each mistake is reported, once, and what needs a `Subscription` is not an error because of it.

use inbox_core::{Database, Handler, Message, Outcome, Subscription, Tx};

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(
    name = "reserve payments",
    topic = "orders placed",
    payload = OrderPlaced,
    id = header(""),
    key = "order_id",
    codec = "Json",
    max_batch = 0,
    time_limit = "soon",
    retry(max_attempts = 0, base = "1s"),
    on_dead = "block",
    window = "7d"
)]
struct ReservePayment<T> {
    of: T,
}

impl<Db: Database, T: Send + Sync + 'static> Handler<Db> for ReservePayment<T> {
    async fn handle(&self, order: &Message<OrderPlaced>, _: &mut Tx<'_, Db>) -> Outcome {
        let _ = (&order.order_id, &self.of);
        Ok(())
    }
}

#[derive(Subscription)]
#[inbox(name = "", topic = "a", payload = T, id = offset, key = record)]
struct Audit<T>(T);

fn needs_subscription(_: impl Subscription<Payload = OrderPlaced>) {}

fn main() {
    needs_subscription(ReservePayment { of: 5 });
    needs_subscription(Audit(OrderPlaced { order_id: String::new() }));
}
