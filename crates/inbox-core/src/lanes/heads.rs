//! Parked messages that are due: the head of a key is started, then handled in its key's own lane (P3).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::identity::{Place, StartToken};
use crate::inbox::{Event, Owner};
use crate::record::Record;
use crate::store::{Database, Head, OpenKey, OpenRow, Start, Started, StoreError, within};

use super::breaker::Permit;
use super::lane::Lane;
use super::open_keys::{Due, OpenPlace, Was};
use super::unit::{Unit, Work};

impl<Db: Database> Lane<Db> {
    /// How long a lane runs due heads before the others have their turn: keys with many open rows must not
    /// hold up those that have none.
    const HEADS_TURN: Duration = Duration::from_millis(100);
    /// Until a key is looked at again whose head could not be read.
    const LOOK_AT_HEAD_AGAIN: Duration = Duration::from_secs(1);

    /// Keys that had open rows when their partition was taken over.
    pub(super) fn load(&mut self, owner: &Arc<Owner>, subscription: usize, key: &OpenKey) {
        let place = OpenPlace { subscription, partition: owner.fence().partition, key: key.key };
        match key.due_in {
            Some(wait) => self.open_key(place, owner, Instant::now().checked_add(wait)),
            None => self.block_key(place, owner),
        }
    }

    /// Runs heads that are due, for a short while. `true` if there was one.
    pub(super) async fn work_heads(&mut self) -> bool {
        let began = Instant::now();
        let subscriptions = Arc::clone(&self.subscriptions);
        let mut any = false;
        while began.elapsed() < Self::HEADS_TURN {
            let mut probe = None;
            let due = self.open.take_due(|subscription| match subscriptions[subscription].breaker.permit() {
                Permit::Free => true,
                Permit::Probe(guard) => {
                    probe = Some(guard);
                    true
                }
                Permit::Busy => false,
            });
            let Some(due) = due else { break };
            any = true;
            self.work_head(due).await;
        }
        any
    }

    async fn work_head(&mut self, Due { place, owner, started }: Due) {
        let owner = &owner;
        if owner.is_stopped() {
            self.close_key(&place);
            return;
        }
        if let Some(unit) = started {
            self.work(vec![unit]).await;
            return;
        }
        let token = StartToken::random();
        let start = Start {
            subscription: self.subscriptions[place.subscription].id,
            fence: owner.fence(),
            key: place.key,
            token,
        };
        self.conn = self.holder.take();
        let head = self.start(&start).await;
        self.rest();
        match head {
            Ok(Head::Started(row)) => {
                let row_id = Started {
                    subscription: start.subscription,
                    fence: start.fence,
                    id: row.stored_id,
                    token,
                };
                let unit = self.read_again(place.subscription, owner, *row, row_id);
                self.work(vec![unit]).await;
            }
            Ok(Head::NotDue(wait)) => {
                self.open_key(place, owner, Instant::now().checked_add(wait));
                self.stand_still(&place);
            }
            Ok(Head::Blocked) => self.block_key(place, owner),
            Ok(Head::None) => self.close_key(&place),
            Ok(Head::Fenced) => {
                self.close_key(&place);
                self.lose_owner(owner);
            }
            Err(error) => {
                // If the database is down, the transport ends this ownership, and the key is loaded again.
                if self.suspect().await && self.complaints.is_time() {
                    let subscription = self.subscriptions[place.subscription].runner.name();
                    tracing::warn!(%subscription, %error, "a parked message that is due could not be started yet");
                }
                self.rest();
                self.open_key(place, owner, Some(Instant::now() + Self::LOOK_AT_HEAD_AGAIN));
            }
        }
    }

    async fn start(&mut self, start: &Start) -> Result<Head, StoreError> {
        let limits = self.settings.limits(self.settings.time_limit);
        loop {
            let (conn, used) = self.connected().await?;
            match within(limits.answer(), Db::start(conn, &limits, start)).await {
                Ok(head) => return Ok(head),
                Err(error) => {
                    self.drop_connection().await;
                    // One that had rested and was found lost says nothing.
                    if !(used && error.is_lost()) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The unit of a started row: under the id and key that it has, whatever the rules say today.
    fn read_again(&self, subscription: usize, owner: &Arc<Owner>, row: OpenRow, started: Started) -> Unit {
        let OpenRow { id, key, offset, fingerprint, timestamp, record_key, value, headers, .. } = row;
        let place = Place { topic: owner.topic().clone(), partition: owner.partition(), offset };
        let record =
            Record::new(place, timestamp, record_key.map(Into::into), value.map(Into::into), headers);
        let runner = &self.subscriptions[subscription].runner;
        let attempt = row.attempts.saturating_add(1);
        let work = match runner.reread(record, id, key) {
            Ok(mut message) => {
                runner.set_attempt(&mut message, attempt);
                Work::Handle(message)
            }
            Err(rejection) => Work::rejected(*rejection, self.blocks(subscription)),
        };
        let is_tried = matches!(work, Work::Handle(_));
        let mut unit = Unit::of_row(subscription, owner, fingerprint, work, started);
        // No handler sees one that was rejected: that is no attempt.
        unit.attempt = if is_tried { attempt } else { row.attempts };
        if row.attempts > 0 {
            // It has failed alone before: others are not made to wait while it does so again.
            unit.reruns = Unit::MAX_RERUNS;
        }
        unit.first_attempt = row.since_first.and_then(|since| Instant::now().checked_sub(since));
        unit
    }

    pub(super) fn lose_owner(&self, owner: &Arc<Owner>) {
        if !owner.is_stopped() {
            owner.stop();
            self.events.send(Event::Lost(Arc::clone(owner)));
        }
    }

    /// The key has open rows, and its head is due then.
    pub(super) fn open_key(&mut self, place: OpenPlace, owner: &Arc<Owner>, due: Option<Instant>) {
        let before = self.open.set(place, owner, due);
        self.opened(place.subscription, before, false);
    }

    /// The head of a key runs again after this wait, and no attempt is counted.
    pub(super) fn keep_head(&mut self, head: Unit, wait: Duration) {
        let subscription = head.subscription();
        let place = head.open_place();
        let before = self.open.keep(head, Instant::now() + wait);
        self.opened(subscription, before, false);
        self.stand_still(&place);
    }

    /// The head of a key is a dead letter: it waits for a person.
    fn block_key(&mut self, place: OpenPlace, owner: &Arc<Owner>) {
        let before = self.open.block(place, owner);
        self.opened(place.subscription, before, true);
        self.stand_still(&place);
    }

    /// The key has no open rows any more, or its ownership is over.
    pub(super) fn close_key(&mut self, place: &OpenPlace) {
        if let Some((Was { blocked }, held)) = self.open.remove(place) {
            self.back_to_queue(held);
            let subscribed = &self.subscriptions[place.subscription];
            self.told(place.subscription, subscribed.breaker.closed(blocked));
        }
    }

    /// The key's head waits: what comes for the key is written behind it from now on.
    pub(super) fn stand_still(&mut self, place: &OpenPlace) {
        let held = self.open.stands_still(place);
        self.back_to_queue(held);
    }

    /// Before what came later.
    fn back_to_queue(&mut self, held: VecDeque<Unit>) {
        held.into_iter().rev().for_each(|unit| self.queue.defer(unit));
    }

    /// A key has open rows now, whatever it was before.
    fn opened(&self, subscription: usize, before: Option<Was>, blocked: bool) {
        let subscribed = &self.subscriptions[subscription];
        let breaker = &subscribed.breaker;
        if before.is_none() && breaker.opened() {
            tracing::warn!(
                subscription = %subscribed.runner.name(), keys = breaker.keys(),
                "too many keys have parked messages: what the handler depends on seems to be down; parked messages \
                 are tried one at a time, and no others until half as many keys have any"
            );
        }
        match (before.is_some_and(|was| was.blocked), blocked) {
            (false, true) => self.told(subscription, breaker.blocked()),
            (true, false) => breaker.unblocked(),
            _ => {}
        }
    }

    fn told(&self, subscription: usize, lets_go: bool) {
        if lets_go {
            let subscribed = &self.subscriptions[subscription];
            tracing::info!(
                subscription = %subscribed.runner.name(), keys = subscribed.breaker.keys(),
                "few enough keys have parked messages: all messages are handled again"
            );
        }
    }
}
