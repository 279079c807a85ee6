//! Take over: a partition gets a new epoch (P4), and its watermarks are read.

use crate::identity::{Epoch, Offset, Partition, PartitionId, SubscriptionId, Topic};

use super::LastRecord;

/// Which log a partition is, as far as the broker tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The cluster's id; empty where the broker does not tell it.
    pub cluster: String,
    /// The topic's id, new at each creation; nothing where the broker does not tell it.
    pub topic_id: Option<String>,
}

impl Log {
    /// Whether these cannot be the same log.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        let another_cluster =
            !self.cluster.is_empty() && !other.cluster.is_empty() && self.cluster != other.cluster;
        let another_topic =
            self.topic_id.as_ref().zip(other.topic_id.as_ref()).is_some_and(|(one, two)| one != two);
        another_cluster || another_topic
    }
}

/// A partition that Kafka assigned to this process.
#[derive(Clone, Debug)]
pub struct TakeOver {
    /// The consumer group.
    pub group: String,
    /// The topic.
    pub topic: Topic,
    /// The partition.
    pub partition: Partition,
    /// The token of the new ownership; made before the statement.
    pub epoch: Epoch,
    /// Every subscription that consumes it.
    pub subscriptions: Vec<SubscriptionId>,
    /// Where a subscription that was never here begins.
    pub first: Offset,
    /// The partition's flush number is at least this one afterwards.
    pub raise_number_to: Option<i64>,
    /// Which log it is. Recorded where nothing is recorded yet.
    pub log: Log,
}

/// A partition that is this process's own now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    /// The store's number for it.
    pub partition: PartitionId,
    /// How often a person accepted another log for it, plus one.
    pub incarnation: i32,
    /// What the next flush must expect.
    pub flush_number: i64,
    /// The number before the take-over.
    pub number_before: i64,
    /// The watermark of each subscription, in the order in which they were asked for.
    pub watermarks: Vec<Offset>,
    /// The log that is recorded: the caller compares.
    pub log: Log,
    /// The last finished record.
    pub last: Option<LastRecord>,
}
