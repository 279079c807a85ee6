//! Whose fault it is: a failure in a batch only isolates, a failure alone is classified (P6).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::dead_letter::{DeadClass, OnDead};
use crate::failure::{Failure, FailureClass};
use crate::identity::PartitionId;
use crate::inbox::{End, Event};
use crate::process::AttemptEnd;
use crate::retry::{Next, Tried};
use crate::store::{Database, Failed, StoreError};

use super::batch::BatchEnd;
use super::lane::Lane;
use super::unit::{Unit, Work};

/// What a part of a batch came to, beside what was reported already.
pub(super) enum PartEnd {
    /// Every unit has ended or waits for its retry.
    Over,
    /// Every unit has ended or waits, and one of them failed alone.
    FailedAlone,
    /// Run these again, as they are.
    Again(Vec<Unit>),
    /// It failed alone, and this is to be done with it next.
    Then(Unit),
    /// It failed together with others: run these parts, in this order.
    Split(Vec<Vec<Unit>>),
    /// The database is down.
    Outage(Vec<Unit>),
}

impl<Db: Database> Lane<Db> {
    /// Runs units of one subscription until each has ended or waits for its retry.
    pub(super) async fn work(&mut self, batch: Vec<Unit>) {
        let subscriptions = Arc::clone(&self.subscriptions);
        let subscription = batch[0].subscription;
        let pace = &subscriptions[subscription].pace;
        let _turn = pace.turn().await;
        self.conn = self.holder.take();
        let mut parts = VecDeque::from([batch]);
        let (mut split, mut failed_alone) = (false, false);
        while let Some(part) = parts.pop_front() {
            let mut part = self.runnable(part);
            let waiting = self.take_waiting(&mut part);
            if !waiting.is_empty() {
                parts.push_front(part);
                part = waiting;
            }
            let Some(first) = part.first() else { continue };
            let end = match first.work {
                Work::Handle(_) => self.handle_part(part).await,
                Work::Park(_) => self.park_part(part).await,
                Work::Bury(_) => self.bury_part(part).await,
            };
            match end {
                PartEnd::Over => {}
                PartEnd::FailedAlone => failed_alone = true,
                PartEnd::Again(units) => parts.push_front(units),
                PartEnd::Then(unit) => {
                    failed_alone = true;
                    parts.push_front(vec![unit]);
                }
                PartEnd::Split(smaller) => {
                    split = true;
                    smaller.into_iter().rev().for_each(|part| parts.push_front(part));
                }
                PartEnd::Outage(units) => {
                    // The transport begins anew from the watermark. Until it is told, nothing behind these
                    // may run: the database may be back already.
                    let rest: Vec<Unit> = units.into_iter().chain(parts.drain(..).flatten()).collect();
                    for unit in &rest {
                        unit.owner.stop();
                        if unit.row.is_some() {
                            self.events.send(Event::Dropped(Arc::clone(&unit.owner)));
                        }
                    }
                    self.report(rest.into_iter().map(|unit| (unit, End::Dropped)));
                }
            }
        }
        self.rest();
        if split && !failed_alone {
            tracing::info!(
                subscription = %subscriptions[subscription].runner.name(),
                "a batch failed and none of its messages did alone: batches run one at a time for a while"
            );
            pace.one_at_a_time_for_a_while();
        }
    }

    async fn handle_part(&mut self, part: Vec<Unit>) -> PartEnd {
        let subscriptions = Arc::clone(&self.subscriptions);
        let subscribed = &subscriptions[part[0].subscription];
        let started = Instant::now();
        let end = self.transact(&part).await;
        match end {
            BatchEnd::Finished(ends) => {
                subscribed.pace.took(part.len(), started.elapsed());
                self.report(part.into_iter().zip(ends));
                PartEnd::Over
            }
            BatchEnd::Fenced(partitions) => {
                self.lose(&part, &partitions);
                PartEnd::Again(part)
            }
            BatchEnd::Handler(AttemptEnd::SecondStatement { sql }) => {
                if subscribed.pace.run_in_sequence() {
                    tracing::info!(
                        subscription = %subscribed.runner.name(), statement = sql,
                        "its handler sends more than one statement: its messages are handled in sequence from now on"
                    );
                }
                PartEnd::Again(part)
            }
            BatchEnd::NoConnection(error) => self.no_connection(part, &error).await,
            BatchEnd::Stale => PartEnd::Again(part),
            end if part.len() > 1 => self.isolate(part, &end).await,
            end => {
                let Some(mut unit) = part.into_iter().next() else { return PartEnd::Over };
                unit.began = started;
                self.judge_alone(unit, end).await
            }
        }
    }

    /// Fewer messages each time. Where the failing one is known it runs alone next, between those
    /// before and behind it; otherwise by halves.
    async fn isolate(&mut self, mut part: Vec<Unit>, end: &BatchEnd) -> PartEnd {
        let (lost, hint) = match end {
            BatchEnd::Ours(error) | BatchEnd::Commit(error) => (error.is_lost(), None),
            BatchEnd::Handler(end) => {
                let lost = matches!(end, AttemptEnd::Failed { failure, .. } if failure.class() == FailureClass::Infrastructure);
                (lost, end.index())
            }
            _ => (false, None),
        };
        if lost && !self.suspect().await {
            return PartEnd::Outage(part);
        }
        tracing::debug!(messages = part.len(), ?end, "a batch failed and is isolated");
        let Some(at) = hint else {
            let second = part.split_off(part.len() / 2);
            return PartEnd::Split(vec![part, second]);
        };
        let behind = part.split_off(at + 1);
        let alone = part.split_off(at);
        PartEnd::Split(vec![part, alone, behind].into_iter().filter(|part| !part.is_empty()).collect())
    }

    async fn judge_alone(&mut self, unit: Unit, end: BatchEnd) -> PartEnd {
        match end {
            BatchEnd::Waiting => {
                let wait = self.backoff(2);
                self.retry_uncounted(unit, wait, "another transaction holds its id")
            }
            BatchEnd::Ours(StoreError::Busy(reason)) => {
                let wait = self.backoff(2);
                self.retry_uncounted(unit, wait, &reason)
            }
            BatchEnd::Ours(error) => self.strike(unit, &error, DeadClass::Unstorable).await,
            BatchEnd::Commit(error) if error.is_lost() => self.strike(unit, &error, DeadClass::Crashed).await,
            BatchEnd::Commit(error) => {
                // The database is up, or this is an outage; then the message's own statements are to
                // blame for what COMMIT found: a deferred constraint.
                if !self.suspect().await {
                    return PartEnd::Outage(vec![unit]);
                }
                let reason = format!("COMMIT failed: {error}");
                match error.class() {
                    class @ (FailureClass::Conflict | FailureClass::Unclear)
                        if unit.reruns < Unit::MAX_RERUNS =>
                    {
                        self.rerun(unit, class, &reason)
                    }
                    class => self.retry(unit, &Failure::of(class, reason)),
                }
            }
            BatchEnd::Handler(AttemptEnd::Panicked { reason, .. }) => {
                self.retry(unit, &Failure::transient(format!("the handler panicked: {reason}")))
            }
            BatchEnd::Handler(AttemptEnd::TimedOut { .. }) => {
                // It may have waited for a database that is silent.
                if !self.suspect().await {
                    return PartEnd::Outage(vec![unit]);
                }
                let limit = self.subscriptions[unit.subscription].pace.time_limit;
                let reason = format!("the handler took longer than its time limit of {limit:?}");
                self.retry(unit, &Failure::transient(reason))
            }
            BatchEnd::Handler(AttemptEnd::Failed { failure, suspect_database, .. }) => {
                let lost = self.conn.is_none();
                if suspect_database && !self.suspect().await {
                    return PartEnd::Outage(vec![unit]);
                }
                match failure.class() {
                    FailureClass::Permanent => {
                        self.bury(unit, DeadClass::Permanent, failure.reason().to_owned())
                    }
                    // The connection was lost under it although the database is up.
                    FailureClass::Infrastructure if lost => {
                        let error = StoreError::Statement {
                            class: failure.class(),
                            reason: failure.reason().to_owned(),
                        };
                        self.strike_healthy(unit, &error, DeadClass::Crashed)
                    }
                    // The handler says that something else is down.
                    FailureClass::Infrastructure => {
                        let wait = self.settings.retry.cap.min(Duration::from_secs(1));
                        self.retry_uncounted(unit, wait, failure.reason())
                    }
                    // Conflicts between batches look so, deadlocks among them.
                    class @ (FailureClass::Conflict | FailureClass::Unclear)
                        if unit.reruns < Unit::MAX_RERUNS =>
                    {
                        self.rerun(unit, class, failure.reason())
                    }
                    _ => self.retry(unit, &failure),
                }
            }
            // Handled before a failure is judged.
            BatchEnd::Finished(_)
            | BatchEnd::Fenced(_)
            | BatchEnd::NoConnection(_)
            | BatchEnd::Stale
            | BatchEnd::Handler(_) => PartEnd::Again(vec![unit]),
        }
    }

    /// The attempt counts. The key waits, in memory or in its rows; the lane goes on with others.
    fn retry(&mut self, mut unit: Unit, failure: &Failure) -> PartEnd {
        let subscribed = &self.subscriptions[unit.subscription];
        let began = unit.began;
        let first = *unit.first_attempt.get_or_insert(began);
        let tried = Tried {
            attempts: unit.attempt,
            since_first: first.elapsed(),
            class: failure.class(),
            asked: failure.wait(),
        };
        let (class, reason) = (failure.class().as_str(), failure.reason());
        let (wait, in_place) = match subscribed.pace.retry.next(tried, fastrand::f64()) {
            Next::Bury(why) => return self.bury(unit, DeadClass::Exhausted, format!("{why}: {reason}")),
            Next::InPlace(wait) => (wait, unit.row.is_none()),
            Next::Park(wait) => (wait, false),
        };
        tracing::warn!(
            subscription = %subscribed.runner.name(), message_id = %unit.id(), place = %unit.place(),
            failed_attempt = unit.attempt, class, reason, next_in = ?wait, parked = !in_place,
            "a message failed: its key waits for the next attempt"
        );
        if !in_place {
            unit.turn_to_parking(Some(Failed {
                class,
                reason: reason.to_owned(),
                attempts: tried.attempts,
                since_first: tried.since_first,
                due_in: wait,
            }));
            return PartEnd::Then(unit);
        }
        unit.attempt = unit.attempt.saturating_add(1);
        unit.strikes = 0;
        let attempt = unit.attempt;
        if let Work::Handle(message) = &mut unit.work {
            subscribed.runner.set_attempt(message, attempt);
        }
        self.queue.block(unit, wait);
        PartEnd::FailedAlone
    }

    /// It is not tried again.
    fn bury(&self, mut unit: Unit, class: DeadClass, reason: String) -> PartEnd {
        let blocks = self.blocks(unit.subscription) && unit.key().is_some();
        unit.turn_to_burial(class, reason, blocks);
        PartEnd::Then(unit)
    }

    /// Whether dead letters of a subscription hold their key.
    pub(super) fn blocks(&self, subscription: usize) -> bool {
        self.subscriptions[subscription].runner.on_dead() == OnDead::Block
    }

    /// Letters or open rows could not be written: smaller ones are, or it is this one's fault.
    pub(super) async fn not_written(
        &mut self,
        mut part: Vec<Unit>,
        error: &StoreError,
        used: bool,
    ) -> PartEnd {
        self.drop_connection().await;
        if used && error.is_lost() {
            return PartEnd::Again(part);
        }
        if part.len() > 1 {
            if error.is_lost() && !self.suspect().await {
                return PartEnd::Outage(part);
            }
            let second = part.split_off(part.len() / 2);
            return PartEnd::Split(vec![part, second]);
        }
        let Some(unit) = part.pop() else { return PartEnd::Over };
        if let StoreError::Busy(reason) = error {
            let wait = self.backoff(2);
            return self.retry_uncounted(unit, wait, reason);
        }
        self.strike(unit, error, DeadClass::Unstorable).await
    }

    /// The database gave this message's transaction up, perhaps for the sake of another batch: only
    /// one runs at a time for a while, and this message again with it. Not counted.
    fn rerun(&mut self, mut unit: Unit, class: FailureClass, reason: &str) -> PartEnd {
        unit.reruns += 1;
        self.subscriptions[unit.subscription].pace.one_at_a_time_for_a_while();
        // A victim is run again at once, the first time.
        let at_once = class == FailureClass::Conflict && unit.reruns == 1;
        let wait = if at_once { Duration::ZERO } else { self.backoff(unit.reruns + 1) };
        self.retry_uncounted(unit, wait, reason)
    }

    /// Not the message's fault: no attempt is counted.
    fn retry_uncounted(&mut self, unit: Unit, wait: Duration, reason: &str) -> PartEnd {
        tracing::info!(
            subscription = %self.subscriptions[unit.subscription].runner.name(), message_id = %unit.id(),
            place = %unit.place(), reason, next_in = ?wait, "a message is run again, uncounted"
        );
        if unit.row.is_some() {
            self.keep_head(unit, wait);
        } else {
            self.queue.block(unit, wait);
        }
        PartEnd::FailedAlone
    }

    /// A statement of ours failed, or the connection was lost, while this message ran alone.
    pub(super) async fn strike(&mut self, unit: Unit, error: &StoreError, class: DeadClass) -> PartEnd {
        if !self.suspect().await {
            return PartEnd::Outage(vec![unit]);
        }
        self.strike_healthy(unit, error, class)
    }

    /// The same after a healthy probe: three in a row are the message's fault.
    fn strike_healthy(&mut self, mut unit: Unit, error: &StoreError, class: DeadClass) -> PartEnd {
        unit.strikes += 1;
        if unit.strikes < Unit::MAX_STRIKES {
            // Further apart than attempts: connections that are ended one after the other must not look
            // like this message's doing.
            let wait = self.backoff(unit.strikes + 4);
            return self.retry_uncounted(unit, wait, &error.to_string());
        }
        if let Work::Bury(burial) = &mut unit.work {
            // Not even its bytes can be kept: the letter names the place in Kafka.
            burial.class = DeadClass::Unstorable;
            burial.with_bytes = false;
            unit.strikes = 0;
            return PartEnd::Then(unit);
        }
        self.bury(unit, class, error.to_string())
    }

    pub(super) async fn no_connection(&mut self, part: Vec<Unit>, error: &StoreError) -> PartEnd {
        if matches!(error, StoreError::NoRoom(_)) {
            // It has waited already, for the server or for another lane.
            return PartEnd::Again(part);
        }
        if !self.suspect().await {
            return PartEnd::Outage(part);
        }
        // The probe found a connection where the lane found none.
        self.holder.complain(error);
        tokio::time::sleep(self.backoff(2)).await;
        PartEnd::Again(part)
    }

    /// Another process owns these partitions: their units are dropped, the transport is told.
    pub(super) fn lose(&self, part: &[Unit], partitions: &[PartitionId]) {
        for unit in part {
            if partitions.contains(&unit.owner.fence().partition) {
                self.lose_owner(&unit.owner);
            }
        }
    }
}
