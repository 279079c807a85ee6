//! One transaction for a batch: admission, handlers, proof, commit (P1).

use crate::identity::{BusinessKey, PartitionId, SubscriptionId};
use crate::inbox::{AnyMessage, End};
use crate::process::{Attempt, AttemptEnd, Chain};
use crate::store::{Admission, Admitted, Database, Fence, StoreError, Transition, within};

use super::lane::Lane;
use super::unit::{Unit, Work};

/// How a batch's transaction ended. Except after `Finished`, nothing was written, or, after a lost
/// connection, nobody knows: running it again lets admission decide.
#[derive(Debug)]
pub(super) enum BatchEnd {
    /// Committed, or found done already: the end of each unit.
    Finished(Vec<End>),
    /// These partitions belong to another epoch.
    Fenced(Vec<PartitionId>),
    /// Another transaction holds the id for longer than the lock time-out.
    Waiting,
    /// No connection could be made.
    NoConnection(StoreError),
    /// The connection had been used before, and was found lost: nobody in this batch did that.
    Stale,
    /// A statement of the inbox failed, not one of a handler.
    Ours(StoreError),
    /// COMMIT failed: a deferred constraint, a transaction that had ended, or a lost connection.
    Commit(StoreError),
    /// A handler failed; the index is that of its unit.
    Handler(AttemptEnd),
}

impl<Db: Database> Lane<Db> {
    /// Runs units of one subscription in one transaction. On return the connection has no open
    /// transaction, or is gone.
    pub(super) async fn transact(&mut self, units: &[Unit]) -> BatchEnd {
        let Some(first) = units.first() else { return BatchEnd::Finished(Vec::new()) };
        let subscriptions = std::sync::Arc::clone(&self.subscriptions);
        let subscribed = &subscriptions[first.subscription];
        let limits = self.settings.limits(subscribed.pace.time_limit);
        let (admission, places) = admission_of(units, subscribed.id);

        let (conn, used) = match self.connected().await {
            Ok(conn) => conn,
            Err(error) => return BatchEnd::NoConnection(error),
        };
        let admitted = match &first.row {
            None => within(limits.answer(), Db::admit(conn, &limits, &admission)).await,
            Some(row) => match within(limits.answer(), Db::finish(conn, &limits, row)).await {
                Ok(Transition::Done) => Ok(Admitted::Open(Vec::new())),
                Ok(Transition::Fenced) => Ok(Admitted::Fenced(vec![row.fence.partition])),
                // Ended by a person, or by a statement of ours whose answer was lost.
                Ok(Transition::Gone) => return BatchEnd::Finished(vec![End::Duplicate]),
                Err(error) => Err(error),
            },
        };
        let conflicts = match admitted {
            Ok(Admitted::Open(conflicts)) => conflicts,
            Ok(Admitted::Fenced(partitions)) => return BatchEnd::Fenced(partitions),
            Ok(Admitted::Waiting) => return BatchEnd::Waiting,
            Err(error) => {
                self.drop_connection().await;
                return if used && error.is_lost() { BatchEnd::Stale } else { BatchEnd::Ours(error) };
            }
        };

        // Whatever is neither fresh nor in conflict has the id of another unit of this batch, the
        // one with the lowest offset: it is a duplicate once that one is committed.
        let mut ends = vec![End::Duplicate; units.len()];
        for &place in &places {
            ends[place] = End::Processed;
        }
        for conflict in &conflicts {
            let unit = &units[places[conflict.index]];
            ends[places[conflict.index]] = End::Duplicate;
            if conflict.other_payload {
                tracing::warn!(
                    subscription = %subscribed.runner.name(), message_id = %unit.id(), place = %unit.place(),
                    "this message id came before with another payload: the sender reuses ids; the message is a duplicate"
                );
            }
        }
        let fresh: Vec<usize> = (0..units.len()).filter(|&at| ends[at] == End::Processed).collect();
        if fresh.is_empty() {
            return match within(limits.answer(), Db::rollback(conn)).await {
                Ok(()) => BatchEnd::Finished(ends),
                Err(error) => self.spoiled(BatchEnd::Ours(error)).await,
            };
        }

        let messages: Vec<&AnyMessage> = fresh.iter().filter_map(|&at| message(&units[at])).collect();
        let chains = (subscribed.pace.pipelines() && fresh.len() > 1).then(|| chains_of(units, &fresh));
        let attempt = Attempt { time_limit: subscribed.pace.time_limit, chains: chains.as_deref() };
        let end = subscribed.runner.run(conn, &messages, &attempt).await;
        if !matches!(end, AttemptEnd::Done) {
            let spoiled =
                end.spoils_connection() || within(limits.answer(), Db::rollback(conn)).await.is_err();
            let end = BatchEnd::Handler(place_of(end, &fresh));
            return if spoiled { self.spoiled(end).await } else { end };
        }
        match within(limits.answer(), Db::commit(conn)).await {
            Ok(()) => BatchEnd::Finished(ends),
            // A transaction may still be open, in whatever state.
            Err(error) => self.spoiled(BatchEnd::Commit(error)).await,
        }
    }

    async fn spoiled(&mut self, end: BatchEnd) -> BatchEnd {
        self.drop_connection().await;
        end
    }
}

fn message(unit: &Unit) -> Option<&AnyMessage> {
    match &unit.work {
        Work::Handle(message) => Some(message),
        Work::Park(_) | Work::Bury(_) => None,
    }
}

/// The handler's end with the unit's index instead of the message's.
fn place_of(end: AttemptEnd, fresh: &[usize]) -> AttemptEnd {
    match end {
        AttemptEnd::Failed { index, failure, suspect_database } => {
            AttemptEnd::Failed { index: index.map(|at| fresh[at]), failure, suspect_database }
        }
        AttemptEnd::Panicked { index, reason } => {
            AttemptEnd::Panicked { index: index.map(|at| fresh[at]), reason }
        }
        AttemptEnd::TimedOut { index } => AttemptEnd::TimedOut { index: index.map(|at| fresh[at]) },
        end => end,
    }
}

/// Distinct ids, sorted, and the unit of each. Of equal ids the first unit is admitted: it has the
/// lowest offset.
fn admission_of(units: &[Unit], subscription: SubscriptionId) -> (Admission, Vec<usize>) {
    let mut places: Vec<usize> = (0..units.len()).collect();
    places.sort_unstable_by_key(|&at| (units[at].stored_id, at));
    places.dedup_by_key(|at| units[*at].stored_id);
    let mut fences: Vec<Fence> = Vec::new();
    for unit in units {
        let fence = unit.owner.fence();
        if !fences.contains(&fence) {
            fences.push(fence);
        }
    }
    fences.sort_unstable_by_key(|fence| fence.partition);
    let admission = Admission {
        subscription,
        fences,
        messages: places.iter().map(|&at| units[at].admit()).collect(),
        patient: units.len() == 1 && units[0].strikes > 0,
    };
    (admission, places)
}

/// One chain per order, in the order of business keys: lanes that touch the same rows then tend to
/// lock them in the same order.
fn chains_of(units: &[Unit], fresh: &[usize]) -> Vec<Chain> {
    let key = |index: usize| units[fresh[index]].key().map(BusinessKey::as_bytes);
    let order = |index: usize| units[fresh[index]].order;
    let mut indices: Vec<usize> = (0..fresh.len()).collect();
    // `fresh` ascends, so within a chain the messages keep their order.
    indices.sort_unstable_by_key(|&index| (key(index), order(index), index));
    indices.chunk_by(|&a, &b| order(a) == order(b)).map(<[usize]>::to_vec).collect()
}
