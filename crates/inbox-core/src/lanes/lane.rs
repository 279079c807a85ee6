//! A lane's loop: take what waits for one subscription, run it as one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::BackoffBuilder as _;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::inbox::{End, Ended, Event, Events, Health, Holder, Opened, Owner, Seldom, Settings};
use crate::store::{Database, OpenKey, StoreError};

use super::Subscribed;
use super::open_keys::OpenKeys;
use super::queue::{BatchLimits, Kind, Queue, Waiting};
use super::unit::Unit;

/// What a lane is told.
pub(super) enum Input {
    Unit(Unit),
    /// A partition was taken over in which this key of a subscription has open rows.
    Open(Arc<Owner>, usize, OpenKey),
    /// Some owner was stopped.
    Sweep,
    /// Nothing will follow.
    End,
}

/// A worker with a connection.
pub(super) struct Lane<Db: Database> {
    pub(super) holder: Holder<Db>,
    pub(super) settings: Arc<Settings>,
    pub(super) subscriptions: Arc<[Subscribed<Db>]>,
    pub(super) health: Arc<Health<Db>>,
    pub(super) events: Events,
    /// While a batch runs. Between batches the holder has it, for those who have none.
    pub(super) conn: Option<Db::Conn>,
    pub(super) queue: Queue<Unit>,
    pub(super) open: OpenKeys,
    pub(super) complaints: Seldom,
    /// Whether more units come at once.
    backlog: Arc<AtomicBool>,
    arrivals: u64,
    ended: bool,
}

impl Waiting for Unit {
    fn subscription(&self) -> usize {
        Unit::subscription(self)
    }

    fn order(&self) -> u64 {
        self.order
    }

    fn arrival(&self) -> u64 {
        self.arrival
    }

    fn bytes(&self) -> usize {
        self.size
    }

    fn is_over(&self) -> bool {
        self.owner.is_stopped()
    }

    fn kind(&self) -> Kind {
        Unit::kind(self)
    }
}

impl<Db: Database> Lane<Db> {
    /// Between two looks at a batch that fills.
    const LOOK_AGAIN: Duration = Duration::from_millis(5);
    /// Between two looks at what may not run, since too many keys have open rows: another lane changes that.
    const WHILE_TRIPPED: Duration = Duration::from_millis(50);
    /// The waits between attempts that do not count.
    const UNCOUNTED_BASE: Duration = Duration::from_millis(100);
    const UNCOUNTED_CAP: Duration = Duration::from_secs(30);

    pub(super) fn new(
        holder: Holder<Db>,
        settings: Arc<Settings>,
        subscriptions: Arc<[Subscribed<Db>]>,
        health: Arc<Health<Db>>,
        events: Events,
        backlog: Arc<AtomicBool>,
    ) -> Self {
        let queue = Queue::new(subscriptions.len());
        Self {
            holder,
            settings,
            subscriptions,
            health,
            events,
            conn: None,
            queue,
            open: OpenKeys::default(),
            complaints: Seldom::new(Duration::from_secs(5)),
            backlog,
            arrivals: 0,
            ended: false,
        }
    }

    /// Runs until its sender is gone.
    pub(super) async fn run(mut self, mut inbox: UnboundedReceiver<Input>) {
        // Before the first message needs it. If this fails, the first batch tries again and says so.
        self.holder.prepare().await;
        let mut lingered = Duration::ZERO;
        loop {
            while let Ok(input) = inbox.try_recv() {
                self.accept(input);
            }
            if self.ended {
                break;
            }
            let bytes = self.settings.max_batch_bytes;
            let subscriptions = Arc::clone(&self.subscriptions);
            let limits = |n: usize| {
                let Subscribed { pace, breaker, .. } = &subscriptions[n];
                BatchLimits { units: if breaker.is_tripped() { 0 } else { pace.size() }, bytes }
            };
            // Each transaction has its price, whatever its size; and where the machine is short of
            // processors, the lanes' many small ones would keep the transport from filling larger ones.
            if lingered < self.settings.linger
                && self.backlog.load(Ordering::Relaxed)
                && self.queue.is_short(limits)
            {
                tokio::time::sleep(Self::LOOK_AGAIN).await;
                lingered += Self::LOOK_AGAIN;
                continue;
            }
            lingered = Duration::ZERO;
            let ran = self.work_heads().await;
            if let Some(batch) = self.queue.take(limits) {
                self.work(batch).await;
                continue;
            }
            if ran {
                continue;
            }
            let due = self.next_look();
            let input = tokio::select! {
                input = inbox.recv() => input,
                () = sleep_until(due) => continue,
            };
            match input {
                Some(input) => self.accept(input),
                None => self.accept(Input::End),
            }
        }
        self.conn = self.holder.take();
        self.drop_connection().await;
    }

    /// When to look again, if nothing comes before.
    fn next_look(&self) -> Option<Instant> {
        let due = [self.queue.next_due(), self.open.next_due()].into_iter().flatten().min();
        let held_back = !self.queue.is_idle() || due.is_some_and(|due| due <= Instant::now());
        if held_back { Some(Instant::now() + Self::WHILE_TRIPPED) } else { due }
    }

    fn accept(&mut self, input: Input) {
        match input {
            Input::Unit(mut unit) => {
                unit.arrival = self.arrivals;
                self.arrivals += 1;
                self.queue.push(unit);
            }
            Input::End => self.ended = true,
            Input::Open(owner, subscription, key) => self.load(&owner, subscription, &key),
            Input::Sweep => {
                for place in self.open.over() {
                    self.close_key(&place);
                }
                let over = self.queue.sweep();
                self.report(over.into_iter().map(|unit| (unit, End::Dropped)));
            }
        }
    }

    /// The ends of units: the transport is told, but for open rows, of which it knows nothing.
    pub(super) fn report(&mut self, ended: impl Iterator<Item = (Unit, End)>) {
        let (mut rows, mut told) = (Vec::new(), Vec::new());
        for (unit, end) in ended {
            if unit.row.is_some() {
                rows.push((unit, end));
            } else {
                told.push(Ended { unit, end });
            }
        }
        if !told.is_empty() {
            self.events.send(Event::Ended(told));
        }
        for (unit, end) in rows {
            self.head_ended(&unit, end);
        }
    }

    /// What a head's end means for its key.
    fn head_ended(&mut self, unit: &Unit, end: End) {
        let place = unit.open_place();
        match end {
            End::Processed | End::Duplicate | End::Dead(_) => {
                tracing::debug!(message_id = %unit.id(), place = %unit.place(), ?end, "a parked message ended");
                // The next one, a letter that blocks the key, or nothing: the store knows.
                self.open_key(place, &unit.owner, Some(Instant::now()));
                self.open.drains(&place);
            }
            // Its next attempt is due later, which was said already; and what is dropped is swept.
            End::Parked | End::Dropped => {}
        }
    }

    /// What may run now of units that are next: those whose ownership is over are dropped, those
    /// whose key waits go behind it. A head is before all that waits for its key.
    pub(super) fn runnable(&mut self, units: Vec<Unit>) -> Vec<Unit> {
        let mut run = Vec::with_capacity(units.len());
        let mut over = Vec::new();
        for unit in units {
            if unit.owner.is_stopped() {
                over.push(unit);
            } else if unit.row.is_none() && self.queue.is_blocked(&unit) {
                self.queue.defer(unit);
            } else {
                run.push(unit);
            }
        }
        self.report(over.into_iter().map(|unit| (unit, End::Dropped)));
        run
    }

    /// The lane's connection, opened if there is none; and whether it was used before.
    pub(super) async fn connected(&mut self) -> Result<(&mut Db::Conn, bool), StoreError> {
        let Opened { conn, used } = match self.conn.take() {
            Some(conn) => Opened { conn, used: true },
            None => self.holder.open().await?,
        };
        Ok((self.conn.insert(conn), used))
    }

    /// Lays the connection aside until the next batch.
    pub(super) fn rest(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.holder.rest(conn);
        }
    }

    /// Whether the database is up, after something that may be its fault. The probe may need the
    /// connection of this lane, which has no open transaction.
    pub(super) async fn suspect(&mut self) -> bool {
        self.rest();
        let up = self.health.suspect().await;
        self.conn = self.holder.take();
        up
    }

    /// Discards the connection: it may have a transaction open, or be in the middle of an answer.
    pub(super) async fn drop_connection(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.holder.discard(conn).await;
        }
    }

    /// The wait before this attempt, at least the second, where it does not count.
    pub(super) fn backoff(&self, attempt: u32) -> Duration {
        let cap = Self::UNCOUNTED_CAP.min(self.settings.retry.cap);
        backon::ExponentialBuilder::new()
            .with_min_delay(Self::UNCOUNTED_BASE.min(self.settings.retry.base))
            .with_max_delay(cap)
            .with_jitter()
            .without_max_times()
            .build()
            // Beyond this the cap is reached whatever the base.
            .nth(usize::try_from(attempt.saturating_sub(2)).unwrap_or_default().min(64))
            .unwrap_or(cap)
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
