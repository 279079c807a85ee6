//! Partitions that wait for a person: told loudly, and looked at again (P10).

use std::time::{Duration, Instant};

use inbox_core::Database;

use crate::context::Place;
use crate::stopped::{StopReason, Stopped};

use super::Poll;
use super::held::Held;

/// How often a stopped partition is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How often it is told that a partition is stopped.
const TELL_AGAIN: Duration = Duration::from_mins(1);

impl<Db: Database> Poll<'_, Db> {
    /// The partition is not consumed; the others go on, and so does its member in the group.
    pub(super) fn stop_partition(&mut self, place: &Place, incarnation: i32, reason: StopReason) {
        let now = Instant::now();
        let next = Held::Stopped(now + LOOK_AGAIN);
        if matches!(self.partitions.get(place), Some(Held::Running(_))) {
            self.halt(place, next);
        } else {
            self.partitions.insert(place.clone(), next);
        }
        let told =
            self.stops.get(place).is_some_and(|(before, at)| *before == reason && *at + TELL_AGAIN > now);
        if told {
            return;
        }
        let (topic, partition) = place.clone();
        let group = self.session.config.group().to_owned();
        let stopped = Stopped { group, topic, partition, incarnation, reason };
        tracing::error!("{stopped}");
        if let Some(on_stop) = &self.session.on_stop {
            on_stop.tell(&stopped);
        }
        self.stops.insert(place.clone(), (stopped.reason, now));
    }
}
