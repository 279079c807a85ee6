use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

macro_rules! with {
    ($name:ident, $($limit:tt)*) => {
        #[derive(Subscription)]
        #[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record, $($limit)*)]
        struct $name;
    };
}

with!(EmptyBatch, max_batch = 0);
with!(NegativeBatch, max_batch = -1);
with!(HalfBatch, max_batch = 0.5);
with!(HugeBatch, max_batch = 99999999999999999999999999);
with!(NoTime, time_limit = "0s");
with!(SomeTime, time_limit = "soon");
with!(UnknownUnit, time_limit = "30 blinks");
with!(NoUnit, time_limit = "30");
with!(BareNumber, time_limit = 30);
with!(BareTime, time_limit = 500ms);
with!(ByExpression, time_limit = std::time::Duration::from_secs(30));

fn main() {}
