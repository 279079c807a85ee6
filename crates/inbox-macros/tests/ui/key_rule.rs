use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

macro_rules! with_key {
    ($name:ident, $($key:tt)*) => {
        #[derive(Subscription)]
        #[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = $($key)*)]
        struct $name;
    };
}

with_key!(Quoted, "order_id");
with_key!(QuotedNested, "customer.id");
with_key!(QuotedSentence, "the order's id");
with_key!(BareField, order_id);
with_key!(Number, 5);
with_key!(Misspelt, partitions);
with_key!(IdRule, header("order-id"));
with_key!(OffsetRule, offset);
with_key!(NoRule, field(order_id));
with_key!(RecordArguments, record(key));
with_key!(PartitionArguments, partition());
with_key!(WhichField, payload);
with_key!(TwoFields, payload(order_id, line));

fn main() {}
