use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = Option<OrderPlaced>, id = payload(order_id), key = payload(order_id))]
struct NoFallback;

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = std::option::Option<OrderPlaced>,
    id = payload(order_id, tombstone = payload(order_id)),
    key = payload(order_id, tombstone = payload(order_id)),
)]
struct FallbackWithoutPayload;

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = OrderPlaced,
    id = payload(order_id, tombstone = offset),
    key = payload(order_id, tombstone = record),
)]
struct NoTombstones;

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = Option<OrderPlaced>,
    id = payload(order_id, tombstone = partition),
    key = payload(order_id, tombstone = record, partition),
)]
struct WrongFallback;

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = Option<OrderPlaced>,
    id = payload(order_id, tombstone(offset)),
    key = payload(order_id, tombstones = record),
)]
struct Misspelt;

fn main() {}
