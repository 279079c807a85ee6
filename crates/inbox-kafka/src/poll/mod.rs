//! The thread that polls Kafka and never waits for handlers.
//!
//! | file | what lives there |
//! |---|---|
//! | `wake`, `waker` | what wakes the thread, and how |
//! | `held` | a partition on its way: claiming, running, resting, paused |
//! | `claim` | raising the epoch, as a task |
//! | `assignment` | assigned, claimed, lost, outage, revoked |
//! | `fetch` | records, within the budget |
//! | `flushing` | watermarks to the database, then offsets to Kafka |
//! | `stop` | partitions that wait for a person |
//! | `subscribe` | the topics that the group is told of |
//! | `release` | revoke and shutdown: drain, flush, give back |

mod assignment;
mod claim;
mod fetch;
mod flushing;
mod held;
mod release;
mod stop;
mod subscribe;
/// What `waker` needs of the standard library, which its model test replaces.
mod sync {
    pub(super) use std::sync::mpsc::Sender;
    pub(super) use std::sync::{Arc, Mutex, PoisonError};
    pub(super) use std::thread::{Thread, current};
}
mod wake;
mod waker;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inbox_core::inbox::{End, Ended, Engine, Event, FlushRequest};
use inbox_core::{Database, Topic};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::client;
use crate::context::{Context, Place};
use crate::convert::Copies;
use crate::error::Error;
use crate::refusal::Refusal;
use crate::session::{self, Session};
use crate::stopped::StopReason;
use crate::topics;

use held::Held;
use release::Release;
pub(crate) use wake::{Wake, Wakes};
pub(crate) use waker::Waker;

/// What the poll thread knows. Nothing of it is shared.
pub(crate) struct Poll<'s, Db: Database> {
    session: &'s Session<Db>,
    consumer: Arc<BaseConsumer<Context>>,
    engine: Arc<Engine<Db>>,
    wakes: Wakes,
    /// Topics that the group was told of.
    subscribed: BTreeSet<Topic>,
    partitions: HashMap<Place, Held>,
    copies: Copies,
    /// Of claims and flushes: an answer to an earlier client's is told apart.
    last_number: u64,
    /// Partitions that wait for a person, and when that was told last.
    stops: HashMap<Place, (StopReason, Instant)>,
    /// Partitions that are being given back.
    release: Option<Release>,
    stopping: bool,
    /// The flush that was sent and not answered.
    flushing: Option<(u64, Vec<FlushRequest>)>,
    next_flush: Instant,
}

impl<'s, Db: Database> Poll<'s, Db> {
    /// How long the thread sleeps at most. What comes earlier wakes it.
    const IDLE: Duration = Duration::from_millis(50);
    /// Callbacks in one turn. With librdkafka's `debug` there are thousands of log lines in a second.
    const SERVED_AT_ONCE: usize = 1000;

    /// A loop for this client, the session's `number`th.
    pub(crate) fn new(session: &'s Session<Db>, consumer: Arc<BaseConsumer<Context>>, number: u32) -> Self {
        Self {
            next_flush: Instant::now() + session.engine.settings().flush_interval,
            session,
            consumer,
            engine: Arc::clone(&session.engine),
            wakes: session.wakes.clone(),
            subscribed: BTreeSet::new(),
            partitions: HashMap::new(),
            copies: Copies::default(),
            last_number: u64::from(number) << 32,
            stops: HashMap::new(),
            release: None,
            stopping: false,
            flushing: None,
        }
    }

    /// Polls until it is stopped or cannot go on. Everything is given back, and the client is closed,
    /// before it returns.
    pub(crate) fn run(mut self, topics: &BTreeSet<Topic>) -> Result<session::Ended, Error> {
        self.session.runtime.spawn(topics::watch(
            Arc::downgrade(&self.consumer),
            Arc::clone(&self.session.wanted),
            self.session.config.refresh_interval(),
            self.wakes.clone(),
        ));
        let result = self.subscribe(topics.clone()).and_then(|()| self.turn_until_done());
        self.consumer.context().close();
        let places: Vec<Place> = self.partitions.keys().cloned().collect();
        self.stop_taking(&places);
        // Queues first: each keeps the client alive.
        self.partitions.clear();
        client::close(self.consumer);
        result
    }

    /// A number that no claim or flush has had.
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn turn_until_done(&mut self) -> Result<session::Ended, Error> {
        loop {
            let Some(mut busy) = self.poll_main()? else { return Ok(session::Ended::NotReleased) };
            busy |= self.take_rebalances()?;
            busy |= self.take_wakes()?;
            busy |= self.fetch()?;
            self.claim_rested();
            self.flush_when_due();
            if self.go_on_releasing() {
                return Ok(session::Ended::Stopped);
            }
            if !busy {
                std::thread::park_timeout(Self::IDLE);
            }
        }
    }

    /// Serves callbacks. Records come from the partitions' own queues, never from here. Nothing when
    /// another client is to be made.
    fn poll_main(&mut self) -> Result<Option<bool>, Error> {
        let mut busy = false;
        for _ in 0..Self::SERVED_AT_ONCE {
            let served = self.consumer.context().served();
            let polled = self.consumer.poll(Duration::ZERO);
            // A poll that has served a callback answers nothing either, although more may wait behind it.
            if polled.is_none() && self.consumer.context().served() == served {
                return Ok(Some(busy));
            }
            busy = true;
            let Some(polled) = polled else { continue };
            match polled {
                Ok(message) => {
                    return Err(Error::Broken(format!(
                        "a record of {} [{}] came from the common queue",
                        rdkafka::Message::topic(&message),
                        rdkafka::Message::partition(&message)
                    )));
                }
                Err(error) => {
                    if self.client_error(&error)? {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(busy))
    }

    /// Most errors of the client mend themselves; it reconnects for ever. One that is fatal ends the
    /// client, and mostly all. `true` when another client may do.
    fn client_error(&self, error: &KafkaError) -> Result<bool, Error> {
        let Some((code, reason)) = self.consumer.client().fatal_error() else {
            // The context has told a refusal already, with what to do about it.
            if Refusal::of(error).is_none() {
                tracing::warn!(%error, "the Kafka client reports a problem");
            }
            return Ok(false);
        };
        match code {
            RDKafkaErrorCode::UnreleasedInstanceId => Ok(true),
            RDKafkaErrorCode::FencedInstanceId => {
                let id = self.session.config.get("group.instance.id").unwrap_or_default().into();
                Err(Error::OtherInstance { id })
            }
            code => Err(Error::Fatal(format!("{code}: {reason}"))),
        }
    }

    fn take_wakes(&mut self) -> Result<bool, Error> {
        let mut busy = false;
        while let Ok(wake) = self.session.received.try_recv() {
            busy = true;
            match wake {
                Wake::Engine(Event::Ended(ended)) => self.ended(&ended),
                Wake::Engine(Event::Lost(owner)) => self.lost(&owner),
                Wake::Engine(Event::Dropped(owner)) => self.parked_dropped(&owner),
                Wake::Engine(Event::Outage) => self.outage(),
                Wake::Engine(Event::Recovered) => self.recovered(),
                Wake::Engine(Event::Broken(reason)) => return Err(Error::Broken(reason)),
                Wake::Claimed { place, claim, result } => self.claimed(place, claim, *result)?,
                Wake::Flushed { flush, result } => self.flush_ended(flush, result),
                Wake::Topics(found) => self.found(found)?,
                Wake::Stop => self.stop(),
            }
        }
        Ok(busy)
    }

    fn ended(&mut self, ended: &[Ended]) {
        for units in ended.chunk_by(|one, next| Arc::ptr_eq(one.owner(), next.owner())) {
            let owner = units[0].owner();
            let place = (owner.topic().clone(), owner.partition());
            // Ends of an earlier ownership of the same partition mean nothing any more.
            if let Some(Held::Running(running)) = self.partitions.get_mut(&place)
                && Arc::ptr_eq(&running.owner, owner)
            {
                for unit in units {
                    running.ended(unit);
                }
                if units.iter().any(|unit| unit.end() == End::Dropped) {
                    self.dropped(&place);
                }
            }
        }
    }
}
