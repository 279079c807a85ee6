//! Take over: a partition gets a new epoch (P4), and its watermarks are read.

use crate::identity::{Epoch, Offset, Partition, PartitionId, SubscriptionId, Topic};

use super::{LastRecord, OpenKey, StoreError};

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

/// The broker has another log than the one that is recorded. Nothing was taken over or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log is not the recorded one, which is {recorded:?}")]
pub struct OtherLog {
    /// The recorded one.
    pub recorded: Log,
    /// Its incarnation.
    pub incarnation: i32,
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
    /// Every subscription that consumes it; each must still be the group's.
    pub subscriptions: Vec<SubscriptionId>,
    /// Where a subscription that was never here begins.
    pub first: Offset,
    /// The partition's flush number is at least this one afterwards.
    pub raise_number_to: Option<i64>,
    /// Which log it is. Recorded where nothing is recorded yet; otherwise it must be that one.
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
    /// Keys of these subscriptions with open rows, or with a letter that blocks them. Whatever had started one
    /// has ended: none of them is started.
    pub open: Vec<OpenKey>,
    /// The log as it is recorded.
    pub log: Log,
    /// The last finished record.
    pub last: Option<LastRecord>,
}

/// A subscription that this group's services still run, and that is not this group's any more. Nothing was
/// taken over: whoever runs it would handle what belongs elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Departed {
    /// A person moved it.
    #[error(
        "subscription {name} was moved from the consumer group {from:?} to {to:?}: consume it there, and leave its \
         handler out of the services of {from:?}"
    )]
    Moved {
        /// The subscription.
        name: String,
        /// The group that asked for its watermark.
        from: String,
        /// The group it belongs to.
        to: String,
    },
    /// A person removed it.
    #[error(
        "subscription {name} was removed from the consumer group {group:?}: leave its handler out of the service; to \
         begin anew under the same name, start the service with `start = …` at the handler"
    )]
    Removed {
        /// The subscription.
        name: String,
        /// The group it belonged to.
        group: String,
    },
    /// The database has no subscription of this number: it went back to before the subscription was recorded.
    #[error(
        "the database does not know subscription number {number} any more, which it gave out when this service started: \
         a replica was promoted that lagged, a backup was restored, or it was migrated down; start the service again, \
         with `start = …` where the inbox asks for it"
    )]
    Unknown {
        /// The number.
        number: i32,
    },
}

/// What the store has of a subscription that is asked for.
pub(crate) struct Standing {
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) removed: bool,
}

impl TakeOver {
    /// Whether the log is the recorded one.
    pub(crate) fn check_log(&self, recorded: &Log, incarnation: i32) -> Result<(), StoreError> {
        if recorded.differs_from(&self.log) {
            return Err(OtherLog { recorded: recorded.clone(), incarnation }.into());
        }
        Ok(())
    }

    /// Whether all of its subscriptions are still this group's.
    pub(crate) fn check(&self, standings: &[Standing]) -> Result<(), StoreError> {
        for SubscriptionId(number) in self.subscriptions.iter().copied() {
            let departed = match standings.iter().find(|standing| standing.id == number) {
                None => Departed::Unknown { number },
                Some(Standing { name, group, removed: true, .. }) => {
                    Departed::Removed { name: name.clone(), group: group.clone() }
                }
                Some(Standing { name, group, .. }) if *group != self.group => {
                    Departed::Moved { name: name.clone(), from: self.group.clone(), to: group.clone() }
                }
                Some(_) => continue,
            };
            return Err(departed.into());
        }
        Ok(())
    }
}
