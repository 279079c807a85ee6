//! Flush: the watermark and its number (P2, P10).

use crate::identity::{Offset, PartitionId, SubscriptionId};
use crate::record::Timestamp;

use super::Fence;

/// A partition whose watermarks are to be written.
#[derive(Clone, Debug)]
pub struct Flush {
    /// The ownership under which they are written.
    pub fence: Fence,
    /// The number that the partition must have: what the last flush, or the take-over, answered.
    pub number: i64,
    /// The watermarks that moved.
    pub watermarks: Vec<FlushWatermark>,
    /// The last record below all watermarks, if another than before is.
    pub last: Option<LastRecord>,
}

/// The last record that is finished for every subscription: by it a log is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRecord {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub time: Timestamp,
}

/// One subscription's watermark in a partition.
#[derive(Clone, Copy, Debug)]
pub struct FlushWatermark {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// Every record below it is finished.
    pub watermark: Offset,
    /// The timestamp of the last finished record, if one was finished and had one.
    pub time: Option<Timestamp>,
}

/// What became of a [`Flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Written; the partition's number is now this.
    Written {
        /// The partition.
        partition: PartitionId,
        /// Its number, for Kafka's commit metadata and the next flush.
        number: i64,
    },
    /// Epoch, number or server were others: this process does not own the partition any more.
    Lost {
        /// The partition.
        partition: PartitionId,
    },
}
