//! The keys of a lane that have open rows: what comes for them waits behind (P3). The good path asks for
//! nothing but whether there are any.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

use crate::identity::{KeyId, PartitionId};
use crate::inbox::Owner;

use super::unit::Unit;

/// A business key of a subscription in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct OpenPlace {
    /// The subscription's index.
    pub(super) subscription: usize,
    pub(super) partition: PartitionId,
    pub(super) key: KeyId,
}

/// Keys with open rows, and when their heads are due.
///
/// A key is only removed by its own lane, which then has nothing of it running.
#[derive(Default)]
pub(super) struct OpenKeys {
    keys: HashMap<OpenPlace, Open>,
    due: BTreeSet<(Instant, OpenPlace)>,
}

struct Open {
    owner: Arc<Owner>,
    /// Nothing while its head runs, or while a dead letter blocks it.
    due: Option<Instant>,
    /// The head, if it was started already and is to run again, uncounted.
    started: Option<Unit>,
}

/// A key whose head is due.
pub(super) struct Due {
    pub(super) place: OpenPlace,
    pub(super) owner: Arc<Owner>,
    pub(super) started: Option<Unit>,
}

impl OpenKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn contains(&self, place: &OpenPlace) -> bool {
        self.keys.contains_key(place)
    }

    /// The key's head is due then; not by itself if nothing is said. `true` if the key had no open rows.
    pub(super) fn set(&mut self, place: OpenPlace, owner: &Arc<Owner>, due: Option<Instant>) -> bool {
        let before = self.keys.insert(place, Open { owner: Arc::clone(owner), due, started: None });
        if let Some(before) = before.as_ref().and_then(|open| open.due) {
            self.due.remove(&(before, place));
        }
        if let Some(due) = due {
            self.due.insert((due, place));
        }
        before.is_none()
    }

    /// The key's head was started, and runs again then as it is. Not in the queue: what comes for its key is
    /// parked meanwhile, and only heads run while too many keys have open rows.
    pub(super) fn keep(&mut self, head: Unit, due: Instant) -> bool {
        let (place, owner) = (head.open_place(), Arc::clone(&head.owner));
        let is_new = self.set(place, &owner, Some(due));
        if let Some(open) = self.keys.get_mut(&place) {
            open.started = Some(head);
        }
        is_new
    }

    /// The key has no open rows any more. `true` if it had.
    pub(super) fn remove(&mut self, place: &OpenPlace) -> bool {
        let Some(open) = self.keys.remove(place) else { return false };
        if let Some(due) = open.due {
            self.due.remove(&(due, *place));
        }
        true
    }

    /// The key whose head is due for the longest time, of a subscription that may run now. Nothing of it is
    /// due until it is [set](Self::set) again.
    pub(super) fn take_due(&mut self, mut may_run: impl FnMut(usize) -> bool) -> Option<Due> {
        let now = Instant::now();
        let &(due, place) = self
            .due
            .iter()
            .take_while(|(due, _)| *due <= now)
            .find(|(_, place)| may_run(place.subscription))?;
        self.due.remove(&(due, place));
        let open = self.keys.get_mut(&place)?;
        open.due = None;
        Some(Due { place, owner: Arc::clone(&open.owner), started: open.started.take() })
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Forgets the keys whose ownership is over.
    pub(super) fn sweep(&mut self) -> Vec<OpenPlace> {
        let over: Vec<OpenPlace> =
            self.keys.iter().filter(|(_, open)| open.owner.is_stopped()).map(|(place, _)| *place).collect();
        for place in &over {
            self.remove(place);
        }
        over
    }
}
