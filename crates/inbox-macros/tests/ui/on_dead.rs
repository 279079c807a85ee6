use inbox_core::Subscription;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

macro_rules! with {
    ($name:ident, $($on_dead:tt)*) => {
        #[derive(Subscription)]
        #[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record, $($on_dead)*)]
        struct $name;
    };
}

with!(NoValue, on_dead);
with!(Parentheses, on_dead(block));
with!(Quoted, on_dead = "block");
with!(QuotedUnknown, on_dead = "stop");
with!(Misspelt, on_dead = blok);
with!(Variant, on_dead = Release);
with!(Path, on_dead = OnDead::Block);
with!(Unknown, on_dead = stop);
with!(Number, on_dead = 5);
with!(Bool, on_dead = true);
with!(Arguments, on_dead = block());
with!(Twice, on_dead = block, on_dead = release);

fn main() {}
