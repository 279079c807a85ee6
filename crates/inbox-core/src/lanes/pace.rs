//! How a subscription's batches are run: learned while running, shared by its lanes.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::Instant;

use crate::inbox::{Runner, Settings};
use crate::retry::RetryPolicy;
use crate::store::Database;

/// What its lanes have learned about running a subscription.
pub(super) struct Pace {
    max_batch: usize,
    batch_time: Duration,
    pub(super) time_limit: Duration,
    pub(super) retry: RetryPolicy,
    /// How many messages fit into the batch time.
    size: AtomicUsize,
    /// Whether handlers of one batch share the connection, until one sends a second statement.
    pipelines: AtomicBool,
    /// Until when only one batch may run at a time.
    alone_until: Mutex<Option<Instant>>,
    gate: tokio::sync::Mutex<()>,
}

impl Pace {
    /// How large a batch is before anything is known about the handler, where each message waits for
    /// the database, and where all do together.
    const FIRST_SIZE: usize = 16;
    const FIRST_SIZE_IN_ONE_GO: usize = 256;
    /// How long only one batch runs at a time after failures that did not recur alone.
    const ALONE_FOR: Duration = Duration::from_secs(2);

    pub(super) fn new<Db: Database>(settings: &Settings, runner: &dyn Runner<Db>) -> Self {
        let max_batch = runner.max_batch().unwrap_or(settings.max_batch);
        let first = if runner.works_in_one_go() { Self::FIRST_SIZE_IN_ONE_GO } else { Self::FIRST_SIZE };
        Self {
            max_batch,
            batch_time: settings.batch_time,
            time_limit: runner.time_limit().unwrap_or(settings.time_limit),
            retry: runner.retry().unwrap_or(&settings.retry).clone(),
            size: AtomicUsize::new(max_batch.min(first)),
            pipelines: AtomicBool::new(runner.pipelines()),
            alone_until: Mutex::new(None),
            gate: tokio::sync::Mutex::new(()),
        }
    }

    /// How many messages the next batch may have.
    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// A batch of this many messages took this long: one that was full and in time lets the next ones
    /// be twice as large, one that took too long cuts them to what would have fitted.
    pub(super) fn took(&self, messages: usize, time: Duration) {
        let size = self.size();
        let wanted = if time > self.batch_time {
            let share = self.batch_time.as_secs_f64() / time.as_secs_f64();
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let fits = (messages as f64 * share) as usize;
            size.min(fits)
        } else if messages >= size {
            size.saturating_mul(2)
        } else {
            return;
        };
        self.size.store(wanted.clamp(1, self.max_batch), Ordering::Relaxed);
    }

    pub(super) fn pipelines(&self) -> bool {
        self.pipelines.load(Ordering::Relaxed)
    }

    /// Its handlers run in sequence from now on. `true` the first time.
    pub(super) fn run_in_sequence(&self) -> bool {
        self.pipelines.swap(false, Ordering::Relaxed)
    }

    /// Failures did not recur alone: its batches disturb each other (deadlocks on hot rows).
    pub(super) fn one_at_a_time_for_a_while(&self) {
        *self.alone_until.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Instant::now() + Self::ALONE_FOR);
    }

    /// Waits for its turn while only one batch may run at a time.
    pub(super) async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        let alone = {
            let mut until = self.alone_until.lock().unwrap_or_else(PoisonError::into_inner);
            if until.is_some_and(|until| until <= Instant::now()) {
                *until = None;
            }
            until.is_some()
        };
        if alone { Some(self.gate.lock().await) } else { None }
    }
}
