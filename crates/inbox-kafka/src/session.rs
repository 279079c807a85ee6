//! One client after the other: a static member under KIP-848 is refused until the session of the
//! process before it is over, and the client library can then only be made anew.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use inbox_core::inbox::{Engine, Event};
use inbox_core::{Database, Topic, Topics};
use rdkafka::consumer::BaseConsumer;
use tokio::runtime::Handle;

use crate::client;
use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::Error;
use crate::poll::{Poll, Wake, Wakes};
use crate::stopped::OnStop;

/// What every client's poll loop works with.
pub(crate) struct Session<Db: Database> {
    pub(crate) config: KafkaConfig,
    pub(crate) engine: Arc<Engine<Db>>,
    pub(crate) runtime: Handle,
    pub(crate) received: Receiver<Wake>,
    pub(crate) wakes: Wakes,
    pub(crate) wanted: Arc<Topics>,
    pub(crate) on_stop: Option<OnStop>,
}

/// Why a client's poll loop ended without an error.
pub(crate) enum Ended {
    /// Gracefully, as it was told.
    Stopped,
    /// The group still has a member under this static id: make another client.
    NotReleased,
}

/// Between two clients: a second on average, so that several that wait do not ask at once.
const WAIT: Duration = Duration::from_millis(500);

impl<Db: Database> Session<Db> {
    /// Polls until it is told to stop or cannot go on. Everything is given back, and the client is
    /// closed, before it returns.
    pub(crate) fn run(self, consumer: BaseConsumer<Context>, topics: &BTreeSet<Topic>) -> Result<(), Error> {
        self.wakes.waker.is_this_thread();
        let (mut consumer, mut first) = (consumer, true);
        let mut number = 0;
        loop {
            let waker = self.wakes.waker.clone();
            consumer.set_nonempty_callback(move || waker.wake());
            match Poll::new(&self, Arc::new(consumer), number).run(topics)? {
                Ended::Stopped => return Ok(()),
                Ended::NotReleased if first => tracing::warn!(
                    group = self.config.group(),
                    "the group still has a member under this process's static id: it is let in when that one's session is \
                     over, and never if another process uses the id"
                ),
                Ended::NotReleased => tracing::debug!("the static id is not released yet"),
            }
            first = false;
            if self.is_stopped_within(WAIT + WAIT.mul_f64(jitter()))? {
                return Ok(());
            }
            consumer = client::make(&self.config)?;
            number += 1;
        }
    }

    /// What is told meanwhile concerns ownerships that are over.
    fn is_stopped_within(&self, wait: Duration) -> Result<bool, Error> {
        let until = Instant::now() + wait;
        loop {
            match self.received.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(true),
                Ok(Wake::Engine(Event::Broken(reason))) => return Err(Error::Broken(reason)),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(false),
            }
        }
    }
}

/// From 0 to 1, by the clock: nothing depends on how random it is.
fn jitter() -> f64 {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    f64::from(nanos.subsec_nanos() % 1000) / 1000.0
}
