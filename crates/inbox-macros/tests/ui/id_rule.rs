use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

macro_rules! with_id {
    ($name:ident, $($id:tt)*) => {
        #[derive(Subscription)]
        #[inbox(name = "a", topic = "a", payload = OrderPlaced, id = $($id)*, key = record)]
        struct $name;
    };
}

with_id!(QuotedHeader, "event-id");
with_id!(QuotedField, "order_id");
with_id!(QuotedSentence, "the event id");
with_id!(BareField, order_id);
with_id!(Number, 5);
with_id!(Misspelt, headers("event-id"));
with_id!(KeyRule, partition);
with_id!(NoRule, field(order_id));
with_id!(WhichHeader, header);
with_id!(NoHeader, header());
with_id!(EmptyHeader, header(""));
with_id!(BareHeader, header(event_id));
with_id!(NumberHeader, header(5));
with_id!(TwoHeaders, header("event-id", "source"));
with_id!(CloudEventArguments, cloud_event("id"));
with_id!(OffsetArguments, offset());
with_id!(WhichField, payload);
with_id!(NoField, payload());
with_id!(QuotedFieldInside, payload("order_id"));
with_id!(TwoFields, payload(order_id, line));
with_id!(OfSelf, payload(self.order_id));
with_id!(Method, payload(order_id.clone()));

fn main() {}
