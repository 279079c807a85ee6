//! Move: a subscription goes on in another consumer group, exactly where it was.
//!
//! In one transaction the services of the old group are fenced off the partitions that the subscription
//! consumes, and its watermarks and unfinished rows become those of the new group's partitions. Receipts
//! follow in batches: an id is found whatever partition its row names, so a crash in between is harmless.

use diesel::result::Error as DieselError;

use crate::identity::{Partition, SubscriptionName, Topic};

use super::StoreError;

/// What a move did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Watermarks that went over; 0 where the subscription was in the new group already, or had none.
    pub watermarks: u64,
    /// Receipts and other rows that now name a partition of the new group.
    pub rows: u64,
}

/// Why a subscription was not moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The two groups are one, or one has no name.
    #[error(
        "a subscription moves from one consumer group to another: {from:?} and {to:?} are not two groups"
    )]
    NotTwoGroups {
        /// The old group.
        from: String,
        /// The new group.
        to: String,
    },
    /// The database has no such subscription, or it was removed.
    #[error("the database knows no subscription {name}: see inbox.subscriptions for those that there are")]
    Unknown {
        /// The subscription.
        name: SubscriptionName,
    },
    /// It belongs to neither of the two groups.
    #[error(
        "subscription {name} belongs to the consumer group {recorded:?}, not to {from:?}: move it from there"
    )]
    OtherGroup {
        /// The subscription.
        name: SubscriptionName,
        /// The group it belongs to.
        recorded: String,
        /// The group it was to be moved from.
        from: String,
    },
    /// A transaction of the running service was not waited for any longer. Nothing was changed.
    #[error(
        "a transaction holds topic {topic} partition {partition} for longer than the call waits: nothing was changed; \
         call it again, or stop the service first"
    )]
    Busy {
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
    },
    /// Another call moves or removes a subscription. Nothing was changed.
    #[error(
        "another call moves or removes a subscription at this moment: nothing was changed; call it again"
    )]
    InProgress,
    /// Other subscriptions consume this partition in the new group, and by what is recorded of it there it
    /// is another log than in the old group: another cluster or topic, or accepted unequally often. A
    /// watermark of the one means nothing in the other, and ids made of offsets would change.
    #[error(
        "topic {topic} partition {partition} is recorded as another log in the new group, or was accepted there \
         another number of times: move the subscription to a group that has not consumed this topic"
    )]
    OtherLog {
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
    },
    /// The database said no. Nothing was changed, or, if the receipts' turn had come, the subscription is
    /// moved and a repeated call goes on with them.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DieselError> for MoveError {
    fn from(error: DieselError) -> Self {
        Self::Store(error.into())
    }
}

/// What is to be done with a subscription that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is in the old group.
    Move,
    /// It is in the new group: only receipts may be left to do.
    Finish,
}

pub(crate) fn check_groups(from: &str, to: &str) -> Result<(), MoveError> {
    if from == to || from.is_empty() || to.is_empty() {
        return Err(MoveError::NotTwoGroups { from: from.into(), to: to.into() });
    }
    Ok(())
}

/// What is to be done, by the group in which the subscription was found.
pub(crate) fn step(name: &str, recorded: Option<&str>, from: &str, to: &str) -> Result<Step, MoveError> {
    let name = || SubscriptionName::new(name);
    match recorded {
        None => Err(MoveError::Unknown { name: name() }),
        Some(recorded) if recorded == from => Ok(Step::Move),
        Some(recorded) if recorded == to => Ok(Step::Finish),
        Some(recorded) => {
            Err(MoveError::OtherGroup { name: name(), recorded: recorded.into(), from: from.into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_done_depends_on_the_recorded_group() {
        assert!(matches!(step("s", None, "a", "b"), Err(MoveError::Unknown { .. })));
        assert_eq!(step("s", Some("a"), "a", "b").expect("it is there"), Step::Move);
        assert_eq!(step("s", Some("b"), "a", "b").expect("it was moved"), Step::Finish);
        assert!(matches!(step("s", Some("c"), "a", "b"), Err(MoveError::OtherGroup { .. })));
        assert!(check_groups("a", "a").is_err() && check_groups("a", "").is_err());
    }
}
