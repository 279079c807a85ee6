//! Lanes: workers with a connection each, that handle the business keys hashed to them (P3).
//!
//! | file | what lives there |
//! |---|---|
//! | `unit` | one message for one subscription under one epoch |
//! | `queue` | what waits in a lane: batches, keys in backoff, order |
//! | `lane` | the worker's loop |
//! | `batch` | one transaction: admission, handlers, proof, commit |
//! | `blame` | a failed batch is isolated; a failure alone is classified |
//! | `burial` | dead letters, in transactions of their own |
//! | `parking` | open rows, in transactions of their own |
//! | `open_keys` | the keys that have open rows |
//! | `heads` | open rows that are due are started and run |
//! | `breaker` | the limit of open rows |
//! | `pace` | batch sizes, pipelining or sequence, one batch at a time after deadlocks |

mod batch;
mod blame;
mod breaker;
mod burial;
mod heads;
mod lane;
mod open_keys;
mod pace;
mod parking;
mod queue;
mod unit;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use crate::identity::SubscriptionId;
use crate::inbox::{Connections, Event, Events, Health, Owner, Runner, Settings};
use crate::store::Database;

use breaker::Breaker;
use lane::{Input, Lane};
use pace::Pace;
pub(crate) use unit::Unit;
use unit::order_of;

/// A handler with its number in the store and what its lanes know about running it.
pub(crate) struct Subscribed<Db: Database> {
    pub(crate) runner: Arc<dyn Runner<Db>>,
    pub(crate) id: SubscriptionId,
    pace: Pace,
    breaker: Breaker,
}

/// Every lane of an inbox.
pub(crate) struct Lanes<Db: Database> {
    subscriptions: Arc<[Subscribed<Db>]>,
    inputs: Vec<UnboundedSender<Input>>,
    /// Whether more units come at once: then it is worth waiting for a fuller batch.
    backlog: Arc<AtomicBool>,
    tasks: TaskTracker,
    running: Vec<AbortHandle>,
}

impl<Db: Database> Lanes<Db> {
    pub(crate) fn start(
        connections: &Arc<Connections<Db>>,
        settings: &Settings,
        handlers: impl Iterator<Item = (Arc<dyn Runner<Db>>, SubscriptionId)>,
        health: &Arc<Health<Db>>,
        events: &Events,
    ) -> Self {
        let subscriptions: Arc<[_]> = handlers
            .map(|(runner, id)| Subscribed {
                pace: Pace::new(settings, &*runner),
                breaker: Breaker::new(settings.max_open_keys),
                runner,
                id,
            })
            .collect();
        let tasks = TaskTracker::new();
        let backlog = Arc::new(AtomicBool::new(false));
        let settings = Arc::new(settings.clone());
        let (inputs, running) = (0..settings.lanes)
            .map(|_| {
                let (input, inbox) = unbounded_channel();
                let lane = Lane::new(
                    connections.holder(),
                    Arc::clone(&settings),
                    Arc::clone(&subscriptions),
                    Arc::clone(health),
                    events.clone(),
                    Arc::clone(&backlog),
                );
                let events = events.clone();
                let task = tasks.spawn(async move {
                    if let Err(panic) = AssertUnwindSafe(lane.run(inbox)).catch_unwind().await {
                        events.send(Event::Broken(crate::subscription::panic_text(&*panic).to_owned()));
                    }
                });
                (input, task.abort_handle())
            })
            .unzip();
        Self { subscriptions, inputs, backlog, tasks, running }
    }

    pub(crate) fn subscriptions(&self) -> &[Subscribed<Db>] {
        &self.subscriptions
    }

    /// Hands a unit to the lane of its key.
    pub(crate) fn send(&self, unit: Unit) {
        let lane = self.lane_of(unit.order);
        // A lane that is gone has said so by an event.
        let _ = self.inputs[lane].send(Input::Unit(unit));
    }

    /// Tells the lanes which keys of a partition have open rows, before any unit of it.
    pub(crate) fn open(&self, owner: &Arc<Owner>) {
        for key in owner.open() {
            let Some(subscription) = self.subscriptions.iter().position(|s| s.id == key.subscription) else {
                continue;
            };
            let lane = self.lane_of(order_of(subscription, owner, key.business_key.as_ref(), || key.key));
            let _ = self.inputs[lane].send(Input::Open(Arc::clone(owner), subscription, key.clone()));
        }
    }

    fn lane_of(&self, order: u64) -> usize {
        usize::try_from(order % self.inputs.len() as u64).unwrap_or_default()
    }

    /// Tells the lanes whether more units come at once. A hint: nothing depends on when they see it.
    pub(crate) fn set_backlog(&self, backlog: bool) {
        self.backlog.store(backlog, Ordering::Relaxed);
    }

    /// Drops every waiting unit whose owner was stopped.
    pub(crate) fn sweep(&self) {
        for input in &self.inputs {
            let _ = input.send(Input::Sweep);
        }
    }

    /// Ends the lanes after the batches that run, within a limit: what runs longer is cut off, and
    /// rolled back by the database.
    pub(crate) async fn stop(&self, limit: Duration) {
        for input in &self.inputs {
            let _ = input.send(Input::End);
        }
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!("lanes are cut off at the limit of the shutdown");
            self.running.iter().for_each(AbortHandle::abort);
            self.tasks.wait().await;
        }
    }
}
