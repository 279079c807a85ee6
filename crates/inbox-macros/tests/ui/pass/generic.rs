//! Handlers with parameters: the derive asks of them what the trait asks of a handler.

use std::marker::PhantomData;

use inbox_core::Subscription;
use serde::de::DeserializeOwned;

#[derive(serde::Deserialize)]
struct OrderPlaced {
    order_id: String,
}

trait Clock {
    fn now(&self) -> u64;
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = payload(order_id))]
#[allow(dead_code)]
struct WithClock<C: Clock, const LIMIT: usize = 10> {
    clock: C,
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
#[allow(dead_code)]
struct WithWhere<C>(C)
where
    C: Clock;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
#[allow(dead_code)]
struct Borrowing<'a>(&'a str);

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = offset, key = record)]
#[allow(dead_code)]
struct ConstOnly<const LIMIT: usize>;

/// The payload is the parameter.
#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = T, id = offset, key = record)]
struct Audit<T>(PhantomData<fn(T)>);

#[derive(serde::Deserialize)]
#[allow(dead_code)]
struct Event<T> {
    id: u64,
    body: T,
}

/// The payload has the parameter within it, and may be a tombstone.
#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = Option<Event<T>>, id = payload(id, tombstone = offset), key = record)]
struct AuditEvents<T>(PhantomData<fn(T)>);

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> u64 {
        0
    }
}

fn definition<S: Subscription>(handler: &S) {
    let _ = handler.definition();
}

fn of_any_payload<T: DeserializeOwned + Send + Sync + 'static>() {
    definition(&Audit::<T>(PhantomData));
    definition(&AuditEvents::<T>(PhantomData));
}

fn main() {
    let _ = Fixed.now();
    definition(&WithClock::<_, 5> { clock: Fixed });
    definition(&WithWhere(Fixed));
    definition(&Borrowing("static"));
    definition(&ConstOnly::<1>);
    of_any_payload::<OrderPlaced>();
}
