//! The kinds of handlers: each a small trait over one [`Subscription`].

use std::future::Future;

use crate::failure::Outcome;
use crate::message::Message;
use crate::store::Database;
use crate::subscription::Subscription;
use crate::tx::Tx;

/// Handles one message inside the transaction that also stores its receipt.
///
/// Write it as `async fn handle(…)`. What it returns says what happens next:
///
/// - `Ok(())`: effect and receipt are committed together; the message is *processed*.
/// - `Err(Failure::permanent(…))`: the effect is rolled back; the message becomes a dead letter.
/// - any other `Err`, also by `?` from diesel: the effect is rolled back; see
///   [`FailureClass`](crate::FailureClass).
/// - a panic, or running longer than its time limit: the effect is rolled back and the connection
///   closed; tried again like a transient failure.
///
/// A handler is called again for a message whose transaction did not commit, so whatever it does
/// *outside* `tx` may happen more than once. It is cancelled at an await (time limit, shutdown).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle messages with a `{Db}` transaction",
    label = "not a handler",
    note = "write `impl Handler<{Db}> for {Self} {{ async fn handle(&self, message: &Message<…>, tx: &mut Tx<'_, {Db}>) -> Outcome {{ … }} }}`"
)]
pub trait Handler<Db: Database>: Subscription {
    /// Does the message's work through `tx`.
    fn handle(
        &self,
        message: &Message<Self::Payload>,
        tx: &mut Tx<'_, Db>,
    ) -> impl Future<Output = Outcome> + Send;
}

/// Handles all fresh messages of a batch at once, inside the transaction that stores their
/// receipts: for set-based SQL.
///
/// - `Ok(())`: every message of the batch is processed.
/// - `Err(failure)` with more than one message: everything is rolled back and the batch is handled
///   again in smaller parts, to find whose fault it is. With one message: as for [`Handler`].
///
/// Messages are in the order in which their keys want them. **Several messages may touch the same
/// row**: `UPDATE … FROM unnest(…)` applies only one of several matches per row, so aggregate per
/// row first (see the example `batch_handler` of the benches), or an effect is lost.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle batches with a `{Db}` transaction",
    label = "not a batch handler",
    note = "write `impl BatchHandler<{Db}> for {Self} {{ async fn handle_batch(&self, messages: &[&Message<…>], tx: &mut Tx<'_, {Db}>) -> Outcome {{ … }} }}`"
)]
pub trait BatchHandler<Db: Database>: Subscription {
    /// Does the work of all these messages through `tx`; there is at least one.
    fn handle_batch(
        &self,
        messages: &[&Message<Self::Payload>],
        tx: &mut Tx<'_, Db>,
    ) -> impl Future<Output = Outcome> + Send;
}
