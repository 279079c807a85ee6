//! What a handler consumes: topics, payload, id and key rules, under a durable name.

#[cfg(test)]
mod cloud_event_tests;
mod codec;
mod definition;
mod read;
mod rules;
mod start;
mod topics;

pub use codec::{Codec, DecodeError, Json, Payload, Tombstones};
pub use definition::{Definition, DefinitionError};
pub(crate) use read::{Read, ReadContext, Rejection, panic_text};
pub use rules::{IdRule, KeyRule};
pub use start::Start;
pub use topics::Topics;

/// A handler's durable name plus topics, payload, id and key rules.
///
/// Derive it, or write it by hand: the derive only fills in the [`Definition`].
///
/// ```
/// use inbox_core::{Definition, IdRule, Json, KeyRule, Subscription};
///
/// #[derive(serde::Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
///     cents: i64,
/// }
///
/// struct ReservePayment;
///
/// impl Subscription for ReservePayment {
///     type Payload = OrderPlaced;
///
///     fn definition(&self) -> Definition<OrderPlaced> {
///         Definition::new("payments.reserve", Json)
///             .topic("orders.placed")
///             .id(IdRule::header("event-id"))
///             .key(KeyRule::payload("order_id", |order: &OrderPlaced| &order.order_id))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a subscription",
    label = "says nowhere what it consumes",
    note = "add `#[derive(Subscription)]` with `#[inbox(name = \"…\", topic = \"…\", payload = …, id = …, key = …)]`"
)]
pub trait Subscription: Send + Sync + 'static {
    /// What records are decoded to; `Option<T>` where tombstones mean something.
    type Payload: Send + Sync + 'static;

    /// Name, topics, rules and limits. Called once, when the handler is added to an inbox.
    fn definition(&self) -> Definition<Self::Payload>;
}
