//! The engine: what a transport drives. It takes partitions over, turns records into units, and
//! writes watermarks down.

use std::sync::Arc;
use std::time::Duration;

use crate::dead_letter::OnDead;
use crate::identity::{Epoch, Offset, Partition, Topic};
use crate::lanes::{Lanes, Unit};
use crate::record::Record;
use crate::store::{
    Database, Departed, Fence, First, Flush, FlushWatermark, Flushed, LastRecord, Log, OtherLog, StoreError,
    TakeOver, TransactionLimits, once_there_is_room,
};
use crate::subscription::ReadContext;

use super::builder::Inbox;
use super::connections::Connections;
use super::events::Events;
use super::health::Health;
use super::housekeeper::Housekeeper;
use super::owner::Owner;
use super::runner::Unread;
use super::seldom::Seldom;
use super::settings::{OnRestore, Settings};
use super::start::StartError;

/// A started inbox. A transport (such as inbox-kafka) drives it; users do not need it.
///
/// The contract: a partition is [taken over](Self::take_over), and its ownership [begun](Self::begin),
/// before its records are [delivered](Self::deliver), from its owner's [start](Owner::start) on, in offset order; every unit
/// ends with exactly one [`Ended`](super::Ended); watermarks are computed by the transport from ends,
/// and [written](Self::flush) before the broker learns of them.
pub struct Engine<Db: Database> {
    group: String,
    settings: Settings,
    lanes: Lanes<Db>,
    health: Arc<Health<Db>>,
    ownership: Housekeeper<Db>,
    offsets: Housekeeper<Db>,
    failures: Seldom,
    refusals: Seldom,
}

impl<Db: Database> Inbox<Db> {
    /// Checks and registers everything, and starts the lanes. `firsts` says of each handler, in order,
    /// where it begins if the database does not know it; of those that are missing, at the first record.
    ///
    /// # Errors
    /// Whatever could be found wrong before the first message: see [`StartError`].
    pub async fn start(
        self,
        group: &str,
        firsts: Vec<First>,
        events: Events,
    ) -> Result<Engine<Db>, StartError> {
        self.check()?;
        let Self { store, settings, runners } = self;
        Db::check_schema(&store).await?;
        let firsts = firsts.into_iter().chain(std::iter::repeat(First::Earliest));
        let registrations: Vec<_> =
            runners.iter().zip(firsts).map(|(runner, first)| runner.registration(first)).collect();
        let mut conn = once_there_is_room(|| Db::connect(&store)).await?;
        let ids = match Db::register(&mut conn, group, &registrations).await {
            Ok(ids) => ids,
            Err(error) => {
                Db::discard(conn).await;
                return Err(error.into());
            }
        };
        drop(conn);
        let connections = Connections::new(store);
        let health = Arc::new(Health::new(&connections, events.clone(), settings.probe_cap));
        let lanes = Lanes::start(&connections, &settings, runners.into_iter().zip(ids), &health, &events);
        Ok(Engine {
            group: group.to_owned(),
            settings,
            lanes,
            health,
            ownership: Housekeeper::new(&connections),
            offsets: Housekeeper::new(&connections),
            failures: Seldom::new(Duration::from_secs(5)),
            refusals: Seldom::new(Duration::from_secs(5)),
        })
    }
}

impl<Db: Database> Engine<Db> {
    /// The longest that one try to take a partition over waits for a transaction of the owner before.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// The limits it runs with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the database is up, as far as this process knows.
    pub fn is_up(&self) -> bool {
        self.health.is_up()
    }

    /// Gives a partition a new epoch and reads its watermarks. `first` is where a subscription that
    /// was never here begins; `committed` the flush number beside the offset that the broker has, asked
    /// for before: one above the database's own shows that the database went back (P10). `log` is which
    /// log the broker has, `patience` how long a transaction of the owner before is waited for, at most a
    /// second: partitions are taken over one after the other.
    ///
    /// # Errors
    /// If the database refuses, or a transaction of the previous owner is still open: try again. If it
    /// went back and [`Settings::on_restore`] says stop. If the log is not the recorded one. If a
    /// subscription was moved or removed.
    pub async fn take_over(
        &self,
        topic: &Topic,
        partition: Partition,
        first: Offset,
        committed: Option<i64>,
        log: &Log,
        patience: Duration,
    ) -> Result<Owner, TakeOverError> {
        let consumers: Vec<_> = self
            .lanes
            .subscriptions()
            .iter()
            .enumerate()
            .filter(|(_, subscription)| subscription.runner.topics().contains(topic))
            .map(|(index, subscription)| (index, subscription.id))
            .collect();
        let asked = TakeOver {
            group: self.group.clone(),
            topic: topic.clone(),
            partition,
            epoch: Epoch::random(),
            subscriptions: consumers.iter().map(|(_, id)| *id).collect(),
            first,
            log: log.clone(),
            raise_number_to: committed.filter(|_| self.settings.on_restore == OnRestore::ConsumeAgain),
        };
        let epoch = asked.epoch;
        let limits = TransactionLimits {
            statement: Duration::from_secs(2),
            lock: patience.min(Self::PATIENCE),
            idle: Duration::from_secs(5),
        };
        let taken = self
            .ownership
            .run(move |conn| Box::pin(async move { Db::take_over(conn, &limits, &asked).await }))
            .await;
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => return Err(self.refused(topic, partition, error).await),
        };
        if let Some(committed) = committed.filter(|committed| *committed > taken.number_before) {
            let number = taken.number_before;
            if self.settings.on_restore == OnRestore::Stop {
                return Err(TakeOverError::WentBack { number, committed });
            }
            tracing::warn!(
                %topic, %partition, number, committed,
                "the database is older than what was committed to Kafka: it is consumed again from its watermark"
            );
        }
        let fence = Fence { partition: taken.partition, epoch };
        let watermarks = consumers.iter().map(|(index, _)| *index).zip(taken.watermarks.clone()).collect();
        Ok(Owner::new((topic.clone(), partition), fence, taken, watermarks))
    }

    /// A partition's ownership begins: its parked messages run from now on. Called once, before the first record
    /// is delivered.
    pub fn begin(&self, owner: &Arc<Owner>) {
        self.lanes.open(owner);
    }

    /// Of all partitions one is told, now and then: what keeps one of them mostly keeps others too.
    async fn refused(&self, topic: &Topic, partition: Partition, error: StoreError) -> TakeOverError {
        let up = self.is_healthy_after(&error).await;
        let error = TakeOverError::from(error);
        if up && matches!(error, TakeOverError::Store(_)) && self.refusals.is_time() {
            tracing::warn!(%topic, %partition, %error, "a partition cannot be taken over yet");
        }
        error
    }

    /// Makes a unit for each subscription that wants the record, and hands it to a lane. Appends the
    /// index of each such subscription to `made`.
    ///
    /// Never waits: the transport bounds what is in flight.
    pub fn deliver(&self, owner: &Arc<Owner>, record: Record, made: &mut Vec<usize>) {
        let fingerprint = record.fingerprint();
        let context = ReadContext {
            cluster: owner.cluster(),
            incarnation: owner.incarnation(),
            max_record_bytes: self.settings.max_record_bytes,
            max_clock_skew: self.settings.max_clock_skew,
        };
        let offset = record.offset();
        // Below its watermark the record is finished for this subscription, receipt or not.
        let mut wanting =
            owner.watermarks().iter().filter(|(_, watermark)| offset >= *watermark).map(|(index, _)| *index);
        let Some(last) = wanting.next_back() else { return };
        let mut hand = |index: usize, record: Record| {
            let runner = &self.lanes.subscriptions()[index].runner;
            let unit = match runner.read(record, &context) {
                Unread::Ignored => return,
                Unread::Message(message) => Unit::to_handle(index, owner, fingerprint, message),
                Unread::Rejected(rejection) => {
                    let blocks = runner.on_dead() == OnDead::Block;
                    Unit::to_bury(index, owner, fingerprint, *rejection, blocks)
                }
            };
            made.push(index);
            self.lanes.send(unit);
        };
        wanting.for_each(|index| hand(index, record.clone()));
        hand(last, record);
    }

    /// Tells whether more is delivered at once, so that lanes may [linger](Settings::linger) for fuller
    /// batches. A hint, told before the transport waits for anything.
    pub fn set_backlog(&self, backlog: bool) {
        self.lanes.set_backlog(backlog);
    }

    /// Drops every waiting unit whose owner was stopped; each ends as `Dropped`.
    pub fn sweep(&self) {
        self.lanes.sweep();
    }

    /// Writes watermarks: per partition the owner, the number it must have, and each moved
    /// subscription's index, watermark and time.
    ///
    /// # Errors
    /// If the database refuses: nothing was written, or its answer was lost.
    pub async fn flush(&self, flushes: &[FlushRequest]) -> Result<Vec<Flushed>, StoreError> {
        let flushes: Vec<Flush> = flushes.iter().map(|request| self.resolve(request)).collect();
        let answer = self
            .offsets
            .run(move |conn| {
                Box::pin(async move { Db::flush(conn, &TransactionLimits::OWN, &flushes).await })
            })
            .await;
        if let Err(error) = &answer
            && self.is_healthy_after(error).await
            && self.failures.is_time()
        {
            tracing::warn!(%error, "watermarks could not be written and are written with the next ones");
        }
        answer
    }

    /// Whether the database is up, which is asked where the error leaves it open.
    async fn is_healthy_after(&self, error: &StoreError) -> bool {
        match error {
            // These are answers; and a server that is full says so itself, and is up.
            StoreError::Departed(_) | StoreError::OtherLog(_) | StoreError::NoRoom(_) => true,
            _ => self.health.suspect().await,
        }
    }

    fn resolve(&self, request: &FlushRequest) -> Flush {
        let subscriptions = self.lanes.subscriptions();
        Flush {
            fence: request.owner.fence(),
            number: request.number,
            last: request.last,
            watermarks: request
                .watermarks
                .iter()
                .map(|&(index, watermark, time)| FlushWatermark {
                    subscription: subscriptions[index].id,
                    watermark,
                    time,
                })
                .collect(),
        }
    }

    /// Ends the lanes after what they run, cut off after this limit. Nothing may be delivered any
    /// more.
    pub async fn stop(&self, limit: Duration) {
        self.lanes.stop(limit).await;
    }
}

/// Why a partition was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The database refused, or a transaction of the previous owner is still open: try again.
    #[error(transparent)]
    Store(StoreError),
    /// A subscription is not its group's any more: it was moved or removed.
    #[error(transparent)]
    Departed(#[from] Departed),
    /// The database is older than what was committed.
    #[error("the database has the flush number {number}, but {committed} was committed")]
    WentBack {
        /// The database's number.
        number: i64,
        /// The number that the broker has.
        committed: i64,
    },
    /// The broker has another log than the one that is recorded.
    #[error(transparent)]
    OtherLog(#[from] OtherLog),
}

impl From<StoreError> for TakeOverError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Departed(departed) => Self::Departed(departed),
            StoreError::OtherLog(other) => Self::OtherLog(other),
            error => Self::Store(error),
        }
    }
}

/// A partition whose watermarks are to be written.
#[derive(Clone, Debug)]
pub struct FlushRequest {
    /// The ownership.
    pub owner: Arc<Owner>,
    /// The number that the last flush, or the take-over, answered.
    pub number: i64,
    /// Each moved subscription: index, watermark, and the last finished record's timestamp.
    pub watermarks: Vec<(usize, Offset, Option<crate::record::Timestamp>)>,
    /// The last record below all watermarks, if another than before is.
    pub last: Option<LastRecord>,
}
