//! Take over: a partition gets a new epoch (P4), and its watermarks are read.

use crate::identity::{Epoch, Offset, Partition, PartitionId, SubscriptionId, Topic};

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
    /// Every subscription that consumes it. One that the database does not know is refused as
    /// [`StoreError::Unregistered`](super::StoreError::Unregistered).
    pub subscriptions: Vec<SubscriptionId>,
    /// Where a subscription that was never here begins.
    pub first: Offset,
    /// The partition's flush number is at least this one afterwards.
    pub raise_number_to: Option<i64>,
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
}
