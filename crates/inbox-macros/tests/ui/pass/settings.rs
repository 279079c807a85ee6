//! Codec, filter, batch size, time limit, start, retries and what becomes of a dead letter's key.

use inbox_core::{Codec, DecodeError, Json, Record, Subscription};

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

struct Csv {
    separator: char,
}

impl Csv {
    fn separated_by(separator: char) -> Self {
        Self { separator }
    }
}

impl Codec<OrderPlaced> for Csv {
    fn decode(&self, value: &[u8]) -> Result<OrderPlaced, DecodeError> {
        let first = str::from_utf8(value)?.split(self.separator).next();
        Ok(OrderPlaced { order_id: first.ok_or("no column")?.to_owned() })
    }
}

mod wanted {
    use inbox_core::Record;

    pub(crate) fn has_key(record: &Record) -> bool {
        record.key.is_some()
    }
}

#[derive(Subscription)]
#[inbox(
    name = "a",
    topic = "a",
    payload = OrderPlaced,
    id = offset,
    key = payload(order_id),
    codec = Csv::separated_by(';'),
    filter = wanted::has_key,
    max_batch = 1,
    time_limit = "1m 30s 5ms",
    start = time(inbox_core::Timestamp(5)),
    retry(
        max_attempts = 10,
        max_elapsed = "24h",
        base = "1s",
        cap = "10m",
        in_place = 3,
        constraint_attempts = 5,
    ),
    on_dead = block,
)]
struct All;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record, codec = Json)]
#[inbox(filter = |record: &Record| record.value.is_some(), time_limit = "500ms", max_batch = 1_000, start = committed)]
#[inbox(retry(in_place = 0), on_dead = release)]
struct ByClosure;

const ATTEMPTS: u32 = 10;

/// Numbers that are not literals, parts in another order, the longest and the shortest time.
#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
#[inbox(retry(
    constraint_attempts = ATTEMPTS / 2,
    cap = "365days",
    max_elapsed = "0s",
    in_place = self.in_place,
    max_attempts = ATTEMPTS.max(self.in_place),
    base = "1ns"
))]
struct ByExpression {
    in_place: u32,
}

macro_rules! retrying {
    ($type:ident, $attempts:expr, $limit:literal, $base:tt, $on_dead:ident) => {
        #[derive(Subscription)]
        #[inbox(
                    name = "a",
                    topic = "a",
                    payload = OrderPlaced,
                    id = offset,
                    key = record,
                    retry(max_attempts = $attempts, constraint_attempts = $limit, base = $base),
                    on_dead = $on_dead,
                )]
        struct $type;
    };
}

retrying!(FromMacro, ATTEMPTS + 1, 3, "1s", block);

fn main() {
    let _ = All.definition();
    let _ = ByClosure.definition();
    let _ = ByExpression { in_place: 3 }.definition();
    let _ = FromMacro.definition();
}
