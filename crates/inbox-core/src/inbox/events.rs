//! What the engine tells the transport that drives it.

use std::fmt;
use std::sync::Arc;

use crate::dead_letter::DeadClass;
use crate::identity::Offset;

use crate::lanes::Unit;

use super::owner::Owner;

/// What the engine tells its transport.
#[derive(Debug)]
pub enum Event {
    /// Units ended, each exactly once.
    Ended(Vec<Ended>),
    /// Another epoch owns this partition: the ownership is over.
    Lost(Arc<Owner>),
    /// What this ownership had to run of its parked messages was dropped for an outage that may be over: it is
    /// to begin anew.
    Dropped(Arc<Owner>),
    /// The database is down: every ownership is over, what it had in flight is dropped.
    Outage,
    /// The database is up again: ownerships may begin anew.
    Recovered,
    /// A lane died of a bug. Nothing it had in flight is finished.
    Broken(String),
}

/// A unit's end.
///
/// It carries what is left of the unit, so that the transport's thread, which made it, frees it too.
pub struct Ended {
    pub(crate) unit: Unit,
    pub(crate) end: End,
}

impl Ended {
    /// The ownership it belonged to.
    #[must_use]
    pub fn owner(&self) -> &Arc<Owner> {
        self.unit.owner()
    }

    /// The subscription, by its index in the engine.
    #[must_use]
    pub fn subscription(&self) -> usize {
        self.unit.subscription()
    }

    /// The record.
    #[must_use]
    pub fn offset(&self) -> Offset {
        self.unit.offset()
    }

    /// How it ended.
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended")
            .field("offset", &self.offset())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// How a unit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Effect and receipt are committed.
    Processed,
    /// A row was there already: done, dead, or open and finished as far as the offset goes.
    Duplicate,
    /// It is a dead letter.
    Dead(DeadClass),
    /// It is an open row: it failed, or waits behind one that did.
    Parked,
    /// It was not run, because its ownership was over. **Not finished.**
    Dropped,
}

impl End {
    /// Whether the record counts as finished for its subscription (P2).
    #[must_use]
    pub fn is_finished(self) -> bool {
        self != Self::Dropped
    }
}

/// Where events go.
#[derive(Clone)]
pub struct Events(Arc<dyn Fn(Event) + Send + Sync>);

impl Events {
    /// Hands each event to this function, from whatever task it happens on. It must not block.
    pub fn new(receive: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }

    pub(crate) fn send(&self, event: Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
