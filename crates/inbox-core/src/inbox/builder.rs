//! Handlers and settings over a store.

use std::sync::Arc;

use crate::handler::{BatchHandler, Handler};
use crate::store::{Database, Store};
use crate::subscription::{Start, Topics};

use super::runner::{All, Each, Handling, Runner};
use super::settings::Settings;

/// Handlers over one store, ready to be driven by a transport such as `inbox_kafka::consume`.
///
/// ```ignore
/// let inbox = Inbox::new(store)
///     .handle(ReservePayment { limit_cents: 100_000 })
///     .handle_batch(UpdateTotals)
///     .settings(Settings { lanes: 4, ..Settings::default() });
/// ```
pub struct Inbox<Db: Database> {
    pub(super) store: Db::Store,
    pub(super) settings: Settings,
    pub(super) runners: Vec<Arc<dyn Runner<Db>>>,
}

impl<Db: Database> Inbox<Db> {
    /// An inbox without handlers.
    pub fn new<S: Store<Db = Db>>(store: S) -> Self
    where
        Db: Database<Store = S>,
    {
        Self { store, settings: Settings::default(), runners: Vec::new() }
    }

    /// Adds a handler that gets one message at a time. Its subscription is checked when the inbox
    /// starts.
    #[must_use]
    pub fn handle<H: Handler<Db>>(mut self, handler: H) -> Self {
        self.runners.push(Arc::new(Handling::<H, Each>::new(handler)));
        self
    }

    /// Adds a handler that gets all fresh messages of a batch at once.
    #[must_use]
    pub fn handle_batch<H: BatchHandler<Db>>(mut self, handler: H) -> Self {
        self.runners.push(Arc::new(Handling::<H, All>::new(handler)));
        self
    }

    /// Replaces the limits; see [`Settings`].
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Every topic that a handler consumes.
    pub fn topics(&self) -> Topics {
        let mut topics = Topics::default();
        self.runners.iter().for_each(|runner| topics.add_all(runner.topics()));
        topics
    }

    /// Of each handler, in order: its topics, and where it is to begin if that was said.
    pub fn starts(&self) -> impl Iterator<Item = (&Topics, Option<Start>)> {
        self.runners.iter().map(|runner| (runner.topics(), runner.start()))
    }

    /// The limits it will run with.
    pub fn current_settings(&self) -> &Settings {
        &self.settings
    }
}
