use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

macro_rules! with {
    ($name:ident, $($start:tt)*) => {
        #[derive(Subscription)]
        #[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record, start = $($start)*)]
        struct $name;
    };
}

with!(Quoted, "committed");
with!(QuotedTime, "2026-11-30");
with!(Misspelt, comitted);
with!(Unknown, offset);
with!(Number, 5);
with!(Arguments, latest());
with!(WhichTime, time);
with!(NoTime, time());
with!(TimeAsText, time("2026-11-30"));
with!(TwoTimes, time(Timestamp(1), Timestamp(2)));
with!(TimeAsNumber, time(1_790_000_000_000));

fn main() {}
