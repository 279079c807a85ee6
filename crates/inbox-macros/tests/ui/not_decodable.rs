use inbox_core::Subscription;

struct OrderPlaced;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
struct WithoutSerde;

fn main() {}
