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
//! | `release` | revoke and shutdown: drain, flush, give back |

mod assignment;
mod claim;
mod fetch;
mod flushing;
mod held;
mod release;
/// What `waker` needs of the standard library, which its model test replaces.
mod sync {
    pub(super) use std::sync::mpsc::Sender;
    pub(super) use std::sync::{Arc, Mutex, PoisonError};
    pub(super) use std::thread::{Thread, current};
}
mod wake;
mod waker;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use inbox_core::Database;
use inbox_core::inbox::{End, Ended, Engine, Event, FlushRequest};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use tokio::runtime::Handle;

use crate::context::{Context, Place};
use crate::convert::Copies;
use crate::error::Error;

use held::Held;
use release::Release;
pub(crate) use wake::{Wake, Wakes};
pub(crate) use waker::Waker;

/// What the poll thread knows. Nothing of it is shared.
pub(crate) struct Poll<Db: Database> {
    consumer: Arc<BaseConsumer<Context>>,
    engine: Arc<Engine<Db>>,
    runtime: Handle,
    received: Receiver<Wake>,
    wakes: Wakes,
    partitions: HashMap<Place, Held>,
    copies: Copies,
    claims: u64,
    /// Partitions that are being given back.
    release: Option<Release>,
    stopping: bool,
    /// The flush that was sent and not answered.
    flushing: Option<Vec<FlushRequest>>,
    next_flush: Instant,
}

impl<Db: Database> Poll<Db> {
    /// How long the thread sleeps at most. What comes earlier wakes it.
    const IDLE: Duration = Duration::from_millis(50);

    pub(crate) fn new(
        consumer: Arc<BaseConsumer<Context>>,
        engine: Arc<Engine<Db>>,
        runtime: Handle,
        received: Receiver<Wake>,
        wakes: Wakes,
    ) -> Self {
        Self {
            next_flush: Instant::now() + engine.settings().flush_interval,
            consumer,
            engine,
            runtime,
            received,
            wakes,
            partitions: HashMap::new(),
            copies: Copies::default(),
            claims: 0,
            release: None,
            stopping: false,
            flushing: None,
        }
    }

    /// From now on a wake unparks the current thread.
    pub(crate) fn wakes_this_thread(&self) {
        self.wakes.waker.is_this_thread();
    }

    /// Polls until it is stopped or cannot go on. Everything is given back before it returns.
    pub(crate) fn run(mut self, topics: &[&str]) -> Result<(), Error> {
        let result = match self.consumer.subscribe(topics) {
            Ok(()) => self.turn_until_done(),
            Err(error) => Err(Error::Client(error)),
        };
        self.consumer.context().close();
        // Queues first: each keeps the client alive.
        self.partitions.clear();
        result
    }

    fn turn_until_done(&mut self) -> Result<(), Error> {
        loop {
            let mut busy = self.poll_main()?;
            busy |= self.take_rebalances()?;
            busy |= self.take_wakes()?;
            busy |= self.fetch()?;
            self.claim_rested();
            self.flush_when_due();
            if self.go_on_releasing() {
                return Ok(());
            }
            if !busy {
                std::thread::park_timeout(Self::IDLE);
            }
        }
    }

    /// Serves callbacks. Records come from the partitions' own queues, never from here.
    fn poll_main(&mut self) -> Result<bool, Error> {
        let mut busy = false;
        while let Some(polled) = self.consumer.poll(Duration::ZERO) {
            busy = true;
            match polled {
                Ok(message) => {
                    return Err(Error::Broken(format!(
                        "a record of {} [{}] came from the common queue",
                        rdkafka::Message::topic(&message),
                        rdkafka::Message::partition(&message)
                    )));
                }
                Err(error) => self.client_error(&error)?,
            }
        }
        Ok(busy)
    }

    /// Most errors of the client mend themselves; it reconnects for ever.
    fn client_error(&self, error: &KafkaError) -> Result<(), Error> {
        if let Some((code, reason)) = self.consumer.client().fatal_error() {
            return Err(Error::Fatal(format!("{code}: {reason}")));
        }
        tracing::warn!(%error, "the Kafka client reports a problem");
        Ok(())
    }

    fn take_wakes(&mut self) -> Result<bool, Error> {
        let mut busy = false;
        while let Ok(wake) = self.received.try_recv() {
            busy = true;
            match wake {
                Wake::Engine(Event::Ended(ended)) => self.ended(&ended),
                Wake::Engine(Event::Lost(owner)) => self.lost(&owner),
                Wake::Engine(Event::Outage) => self.outage(),
                Wake::Engine(Event::Recovered) => self.recovered(),
                Wake::Engine(Event::Broken(reason)) => return Err(Error::Broken(reason)),
                Wake::Claimed { place, claim, result } => self.claimed(place, claim, result)?,
                Wake::Flushed(result) => self.flush_ended(result),
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
