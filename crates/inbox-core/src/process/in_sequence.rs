//! The plain way: handlers in an open transaction, one after the other.
//!
//! Generic over handler and database: diesel's traits stay behind [`Tx`], so that none of their
//! bounds has to be written across backends.

use crate::handler::{BatchHandler, Handler};
use crate::message::Message;
use crate::store::Database;
use crate::tx::{Tx, Watch};

use super::{Attempt, AttemptEnd, guarded, judge};

pub(crate) async fn in_sequence<Db: Database, H: Handler<Db>>(
    conn: &mut Db::Conn,
    handler: &H,
    messages: &[&Message<H::Payload>],
    attempt: &Attempt<'_>,
) -> AttemptEnd {
    for (index, message) in messages.iter().enumerate() {
        let watch = Watch::new(false);
        let mut tx = Tx::new(Db::inner(conn), watch.clone());
        let end = match guarded(handler.handle(message, &mut tx), attempt.time_limit).await {
            Ok(outcome) => judge(Some(index), outcome, &watch),
            Err(end) => end.at(index),
        };
        if !matches!(end, AttemptEnd::Done) {
            return end;
        }
    }
    AttemptEnd::Done
}

pub(crate) async fn all_at_once<Db: Database, H: BatchHandler<Db>>(
    conn: &mut Db::Conn,
    handler: &H,
    messages: &[&Message<H::Payload>],
    attempt: &Attempt<'_>,
) -> AttemptEnd {
    let watch = Watch::new(false);
    let mut tx = Tx::new(Db::inner(conn), watch.clone());
    match guarded(handler.handle_batch(messages, &mut tx), attempt.time_limit).await {
        Ok(outcome) => judge(None, outcome, &watch),
        Err(end) => end,
    }
}
