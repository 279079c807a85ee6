//! Fields within fields, of every kind of name, and of each type that can be an id or a key.

use std::borrow::Cow;

use inbox_core::{FieldValue, Subscription};

#[derive(serde::Deserialize)]
#[allow(dead_code)]
struct OrderPlaced {
    customer: Customer,
    r#type: Option<String>,
    line: (u32, Line),
    of: OrderKey,
}

#[derive(serde::Deserialize)]
struct Customer {
    id: u64,
}

#[derive(serde::Deserialize)]
#[allow(dead_code)]
struct Line {
    number: i32,
}

/// Several fields make the key.
#[derive(serde::Deserialize)]
struct OrderKey {
    shop: u32,
    order: u32,
}

impl FieldValue for OrderKey {
    fn field_value(&self) -> Option<Cow<'_, str>> {
        Some(format!("{}/{}", self.shop, self.order).into())
    }
}

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = payload(r#type), key = payload(customer.id))]
struct Nested;

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderPlaced, id = payload(line.1.number), key = payload(of))]
struct InTuple;

#[derive(serde::Deserialize)]
struct OrderId(String);

#[derive(Subscription)]
#[inbox(name = "a", topic = "a", payload = OrderId, id = payload(0), key = record)]
struct OfTuple;

fn main() {
    let _ = Nested.definition();
    let _ = InTuple.definition();
    let _ = OfTuple.definition();
}
