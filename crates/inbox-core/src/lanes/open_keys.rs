//! The keys of a lane that have open rows: what comes for them waits behind (P3). The good path asks for
//! nothing but whether there are any.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
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
    /// Whether a dead letter blocks it.
    blocked: bool,
    /// The head, if it was started already and is to run again, uncounted.
    started: Option<Unit>,
    /// Whether its rows are finished one after the other: then what comes waits here, in memory. Written behind
    /// them it would come as fast as they go, and a busy key would never be rid of its rows.
    drains: bool,
    held: VecDeque<Unit>,
}

/// What a key with open rows was before.
#[derive(Clone, Copy)]
pub(super) struct Was {
    pub(super) blocked: bool,
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

    /// The key's head is due then. What the key was before, if it was one.
    pub(super) fn set(&mut self, place: OpenPlace, owner: &Arc<Owner>, due: Option<Instant>) -> Option<Was> {
        let before = match self.keys.entry(place) {
            Entry::Occupied(mut entry) => {
                let open = entry.get_mut();
                if let Some(due) = open.due {
                    self.due.remove(&(due, place));
                }
                let was = Was { blocked: open.blocked };
                (open.owner, open.due, open.blocked, open.started) = (Arc::clone(owner), due, false, None);
                Some(was)
            }
            Entry::Vacant(entry) => {
                let (owner, held) = (Arc::clone(owner), VecDeque::new());
                entry.insert(Open { owner, due, blocked: false, started: None, drains: false, held });
                None
            }
        };
        if let Some(due) = due {
            self.due.insert((due, place));
        }
        before
    }

    /// A row of the key was finished: the next ones will be too, as far as anyone knows.
    pub(super) fn drains(&mut self, place: &OpenPlace) {
        if let Some(open) = self.keys.get_mut(place) {
            open.drains = true;
        }
    }

    /// The key's head waits for something. What was held for the key is to be written behind it.
    pub(super) fn stands_still(&mut self, place: &OpenPlace) -> VecDeque<Unit> {
        self.keys.get_mut(place).map_or_else(VecDeque::new, |open| {
            open.drains = false;
            std::mem::take(&mut open.held)
        })
    }

    /// Holds a unit of a key that drains; of another key it comes back.
    pub(super) fn hold(&mut self, unit: Unit) -> Option<Unit> {
        match self.keys.get_mut(&unit.open_place()) {
            Some(open) if open.drains => {
                open.held.push_back(unit);
                None
            }
            _ => Some(unit),
        }
    }

    /// The key's head was started, and runs again then as it is. Not in the queue: what comes for its key is
    /// parked meanwhile, and only heads run while too many keys have open rows.
    pub(super) fn keep(&mut self, head: Unit, due: Instant) -> Option<Was> {
        let (place, owner) = (head.open_place(), Arc::clone(&head.owner));
        let before = self.set(place, &owner, Some(due));
        if let Some(open) = self.keys.get_mut(&place) {
            open.started = Some(head);
        }
        before
    }

    /// A dead letter blocks the key: it is not due by itself. What the key was before, if it was one.
    pub(super) fn block(&mut self, place: OpenPlace, owner: &Arc<Owner>) -> Option<Was> {
        let before = self.set(place, owner, None);
        if let Some(open) = self.keys.get_mut(&place) {
            open.blocked = true;
        }
        before
    }

    /// The key has no open rows any more. What it was, if it had, and what was held for it.
    pub(super) fn remove(&mut self, place: &OpenPlace) -> Option<(Was, VecDeque<Unit>)> {
        let open = self.keys.remove(place)?;
        if let Some(due) = open.due {
            self.due.remove(&(due, *place));
        }
        Some((Was { blocked: open.blocked }, open.held))
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

    /// The keys whose ownership is over.
    pub(super) fn over(&self) -> Vec<OpenPlace> {
        self.keys.iter().filter(|(_, open)| open.owner.is_stopped()).map(|(place, _)| *place).collect()
    }
}
