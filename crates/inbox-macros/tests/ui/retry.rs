use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

macro_rules! with {
    ($name:ident, $($retry:tt)*) => {
        #[derive(Subscription)]
        #[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record, $($retry)*)]
        struct $name;
    };
}

const MANY: usize = 10;

// What is not a list of parts.
with!(Bare, retry);
with!(Equals, retry = 3);
with!(EqualsList, retry = (max_attempts = 3));
with!(Policy, retry = inbox_core::RetryPolicy { max_attempts: 3, ..Default::default() });
with!(Braces, retry { max_attempts: 3 });
with!(Empty, retry());
with!(OneNumber, retry(3));
with!(OneText, retry("3 times"));
with!(Twice, retry(max_attempts = 3), retry(base = "1s"));

// Its parts.
with!(Misspelt, retry(max_attemps = 3, inplace = 1, max_elapsd = "1h"));
with!(Shortened, retry(attempts = 3));
with!(Unknown, retry(jitter = 0.5));
with!(Attribute, retry(max_attempts = 3, time_limit = "3s"));
with!(PartTwice, retry(max_attempts = 3, base = "1s", max_attempts = 4));
with!(NoValue, retry(max_attempts, base =, cap = "1s"));
with!(Colon, retry(max_attempts: 3));
with!(NoComma, retry(max_attempts = 3 base = "1s", cap = soon));
with!(NoExpression, retry(base = ;, max_attempts = 0));
with!(NextToIt, max_attempts = 3);

// Their numbers.
with!(NoAttempts, retry(max_attempts = 0));
with!(NoConstraintAttempts, retry(constraint_attempts = 0));
with!(Negative, retry(in_place = -1));
with!(Half, retry(max_attempts = 0.5));
with!(Huge, retry(max_attempts = 4294967296));
with!(Quoted, retry(max_attempts = "10", in_place = "0"));
with!(QuotedWord, retry(max_attempts = "many"));
with!(TimeAsNumber, retry(max_attempts = "24h"));

// Their times.
with!(NoPause, retry(base = "0s", cap = "0ms"));
with!(SomeTime, retry(max_elapsed = "soon"));
with!(UnknownUnit, retry(base = "3 blinks"));
with!(NoUnit, retry(base = "1"));
with!(BareNumber, retry(max_elapsed = 24));
with!(BareTime, retry(cap = 10m));
with!(ByExpression, retry(base = std::time::Duration::from_secs(1)));
with!(Months, retry(max_elapsed = "24M"));
with!(Years, retry(base = "2 years", cap = "366days", max_elapsed = "1y"));

// A mistake in each of several parts.
with!(Several, retry(max_attempts = 0, base = 1, jitter = 1, cap = "10m"));

// What only rustc knows.
with!(WrongType, retry(max_attempts = MANY));

fn main() {}
