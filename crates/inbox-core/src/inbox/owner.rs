//! One ownership of a partition, from its take-over to its end.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::identity::{Offset, Partition, Topic};
use crate::store::{Fence, LastRecord, OpenKey, TakenOver};

/// One ownership of a partition: units and their ends carry it, so that what belongs to an earlier
/// one is told apart (P4).
#[derive(Debug)]
pub struct Owner {
    topic: Topic,
    partition: Partition,
    fence: Fence,
    taken: TakenOver,
    /// Of each subscription, by its index in the engine, that consumes this topic.
    watermarks: Vec<(usize, Offset)>,
    stopped: AtomicBool,
}

impl Owner {
    pub(super) fn new(
        (topic, partition): (Topic, Partition),
        fence: Fence,
        taken: TakenOver,
        watermarks: Vec<(usize, Offset)>,
    ) -> Self {
        Self { topic, partition, fence, taken, watermarks, stopped: AtomicBool::new(false) }
    }

    /// The topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// The partition.
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// What its transactions check.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// What the first flush must expect.
    pub fn flush_number(&self) -> i64 {
        self.taken.flush_number
    }

    /// Keys with open rows at the take-over.
    pub(crate) fn open(&self) -> &[OpenKey] {
        &self.taken.open
    }

    /// The last record that was finished before: in the same log it is still at its offset, or gone.
    pub fn last(&self) -> Option<LastRecord> {
        self.taken.last
    }

    /// The subscriptions that consume it, by index, with their watermarks at the take-over.
    pub fn watermarks(&self) -> &[(usize, Offset)] {
        &self.watermarks
    }

    /// Where consumption starts: the lowest watermark.
    pub fn start(&self) -> Offset {
        self.watermarks.iter().map(|(_, watermark)| *watermark).min().unwrap_or(Offset(0))
    }

    /// How often a person accepted another log for it, plus one.
    pub fn incarnation(&self) -> i32 {
        self.taken.incarnation
    }

    /// The id of its topic, if a broker told it.
    pub fn topic_id(&self) -> Option<&String> {
        self.taken.log.topic_id.as_ref()
    }

    /// The cluster whose name ids made of offsets carry.
    pub(super) fn cluster(&self) -> &str {
        &self.taken.log.cluster
    }

    /// From now on units of this ownership are dropped instead of run. Transactions that run end
    /// as they would have.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}
