//! Revoke and shutdown: stop taking, let what runs end, flush, give back (P2).
//!
//! The thread goes on polling meanwhile: the group waits for the unassign, not for this thread.

use std::time::Instant;

use inbox_core::Database;

use crate::context::Place;

use super::Poll;
use super::held::{Held, Running};

/// Partitions that are being given back.
pub(super) struct Release {
    places: Vec<Place>,
    until: Instant,
    /// What runs has ended, or the limit was reached; now the last flush is waited for.
    drained: bool,
    /// The process ends with it.
    last: bool,
}

impl<Db: Database> Poll<'_, Db> {
    pub(super) fn is_releasing(&self, place: &Place) -> bool {
        self.release.as_ref().is_some_and(|release| release.places.contains(place))
    }

    /// The group takes partitions away.
    pub(super) fn begin_release(&mut self, places: Vec<Place>, lost: bool) {
        tracing::info!(partitions = places.len(), lost, "revoked");
        // What is not consumed yet is forgotten: its claim finds nobody.
        let (running, idle): (Vec<Place>, Vec<Place>) = places
            .into_iter()
            .partition(|place| matches!(self.partitions.get(place), Some(Held::Running(_))));
        for place in &idle {
            self.partitions.remove(place);
            self.stops.remove(place);
        }
        self.stop_taking(&running);
        if self.release.is_some() {
            // At shutdown a rebalance comes in between: everything is being given back already.
            self.give_back(&running);
            return;
        }
        if lost || running.is_empty() {
            // Others may own them: nothing that runs may hold the group up, and their epoch ends it.
            self.give_back(&running);
            return;
        }
        self.release =
            Some(Release { places: running, until: self.drain_until(), drained: false, last: false });
    }

    /// The process ends gracefully.
    pub(super) fn stop(&mut self) {
        if self.stopping {
            return;
        }
        tracing::info!("stopping");
        self.stopping = true;
        self.partitions.retain(|_, held| matches!(held, Held::Running(_)));
        let places: Vec<Place> = self.partitions.keys().cloned().collect();
        self.stop_taking(&places);
        self.release = Some(Release { places, until: self.drain_until(), drained: false, last: true });
    }

    fn drain_until(&self) -> Instant {
        Instant::now() + self.engine.settings().drain_limit
    }

    pub(super) fn stop_taking(&mut self, places: &[Place]) {
        for place in places {
            if let Some(Held::Running(running)) = self.partitions.get(place) {
                running.owner.stop();
            }
        }
        self.engine.sweep();
    }

    /// One step on the way. `true` when the process has given everything back.
    pub(super) fn go_on_releasing(&mut self) -> bool {
        let Some(release) = &self.release else { return false };
        let late = Instant::now() >= release.until;
        let places = release.places.clone();
        let running = |poll: &Self, still: fn(&Running) -> bool| {
            places
                .iter()
                .any(|place| matches!(poll.partitions.get(place), Some(Held::Running(r)) if still(r)))
        };
        if !release.drained {
            if running(self, |r| r.outstanding > 0) && !late {
                return false;
            }
            // A flush that is on its way may have left before the last units ended.
            if self.flushing.is_some() && !late {
                return false;
            }
            if late {
                tracing::warn!("transactions still run at the drain limit: the next owner waits for them");
            }
            if self.engine.is_up() {
                self.flush();
            }
            if let Some(release) = &mut self.release {
                release.drained = true;
            }
        }
        if running(self, Running::is_flushing) && !late {
            return false;
        }
        let last = self.release.take().is_some_and(|release| release.last);
        self.give_back(&places);
        last
    }

    /// The group may give them to others.
    fn give_back(&mut self, places: &[Place]) {
        let running: Vec<&Place> = places
            .iter()
            .filter(|place| matches!(self.partitions.get(place), Some(Held::Running(_))))
            .collect();
        self.unassign(running.into_iter());
        for place in places {
            self.partitions.remove(place);
        }
    }
}
