//! Handlers of one batch that share the connection, pipelined by business key.

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::handler::Handler;
use crate::message::Message;
use crate::process::{Attempt, AttemptEnd, Chain, caught, judge};
use crate::tx::{Tx, Watch};

use super::{PgConn, Postgres};

/// Chains are polled first in their order, and a statement is sent when its future is first polled:
/// so rows are locked in the order of keys, as far as one statement each can do it.
pub(super) async fn pipelined<H: Handler<Postgres>>(
    conn: &PgConn,
    handler: &H,
    messages: &[&Message<H::Payload>],
    chains: &[Chain],
    attempt: &Attempt<'_>,
) -> AttemptEnd {
    let all = async {
        let mut running: FuturesUnordered<_> =
            chains.iter().map(|chain| run_chain(conn, handler, messages, chain)).collect();
        let mut worst = AttemptEnd::Done;
        while let Some(end) = running.next().await {
            match (&worst, &end) {
                (_, AttemptEnd::Done) => {}
                // A panic leaves a future that was dropped in the middle; nothing else matters.
                (_, AttemptEnd::Panicked { .. } | AttemptEnd::TimedOut { .. }) => return end,
                // The first error is the cause, the others find an aborted transaction; but a second
                // statement says that this way of running was wrong.
                (_, AttemptEnd::SecondStatement { .. }) | (AttemptEnd::Done, _) => worst = end,
                _ => {}
            }
        }
        worst
    };
    // Unconstrained, since the runtime's budget for one poll would hold back all but the first hundred
    // statements; the batch is bounded, and it waits for the database right after.
    let all = tokio::task::unconstrained(all);
    tokio::time::timeout(attempt.time_limit, all).await.unwrap_or(AttemptEnd::TimedOut { index: None })
}

async fn run_chain<H: Handler<Postgres>>(
    conn: &PgConn,
    handler: &H,
    messages: &[&Message<H::Payload>],
    chain: &Chain,
) -> AttemptEnd {
    for &index in chain {
        let watch = Watch::new(true);
        let mut tx = Tx::new(conn.inner(), watch.clone());
        let end = match caught(handler.handle(messages[index], &mut tx)).await {
            Ok(outcome) => judge(Some(index), outcome, &watch),
            Err(end) => end.at(index),
        };
        if !matches!(end, AttemptEnd::Done) {
            return end;
        }
    }
    AttemptEnd::Done
}
