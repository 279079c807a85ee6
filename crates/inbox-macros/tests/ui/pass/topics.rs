//! Several topics, in each way to write them, and values that are not literals.

use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

const NAME: &str = "a";
const TOPIC: &str = "orders.returned";
const PATTERN: &str = "returns-[0-9]+";
const HEADER: &str = "event-id";
const BATCH: usize = 10;

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "orders.placed",
    topic = "orders.changed",
    topics("orders.cancelled", "orders.archived",),
    payload = OrderPlaced,
    id = offset,
    key = record
)]
struct Several;

#[derive(Subscription)]
#[inbox(name = "a", topic_pattern = r"orders\.(eu|us)\..*", topic_pattern = PATTERN, topic = TOPIC)]
#[inbox(payload = OrderPlaced, id = offset, key = record)]
struct ByPattern;

#[derive(Subscription)]
#[inbox(name = "a", topic_pattern = "orders.*", payload = OrderPlaced, id = offset, key = record)]
struct OnlyByPattern;

#[derive(Subscription)]
#[inbox(name = NAME, topic = TOPIC, topics(crate::TOPIC), payload = OrderPlaced)]
#[inbox(id = header(HEADER), key = record, max_batch = BATCH)]
struct ByConstant;

#[derive(Subscription)]
#[inbox(name = Self::NAME, topic = self.topic.clone(), payload = OrderPlaced, id = offset, key = record)]
struct ByField {
    topic: String,
}

impl ByField {
    const NAME: &str = "by-field";
}

macro_rules! subscription {
    ($type:ident, $name:literal, $topic:expr, $payload:ty, $field:ident) => {
        #[derive(Subscription)]
        #[inbox(
                            name = $name,
                            topic = $topic,
                            payload = $payload,
                            id = payload($field, tombstone = offset),
                            key = payload($field, tombstone = record),
                            time_limit = "30s",
                        )]
        struct $type;
    };
}

subscription!(FromMacro, "a", "b", Option<OrderPlaced>, order_id);

fn main() {
    let _ = Several.definition();
    let _ = ByPattern.definition();
    let _ = OnlyByPattern.definition();
    let _ = ByConstant.definition();
    let _ = ByField { topic: "a".to_owned() }.definition();
    let _ = FromMacro.definition();
}
