//! Remove: a subscription is forgotten.
//!
//! In one transaction its services are fenced off its partitions, its watermarks go, and it is marked as
//! removed; its rows follow in batches, when nobody can ask for them any more.

use diesel::result::Error as DieselError;

use crate::identity::{Partition, SubscriptionName, Topic};

use super::StoreError;

/// What is done with messages of the subscription that are not finished: open rows and dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnfinished {
    /// The subscription is not removed while there are any.
    Refuse,
    /// They are deleted with their bytes: **these messages are lost**.
    Discard,
}

/// What a removal did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Rows that were deleted by this call: receipts, and what was discarded.
    pub rows: u64,
}

/// Why a subscription was not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The database has no such subscription, and never removed one of this name from this group.
    #[error("the database knows no subscription {name}: see inbox.subscriptions for those that there are")]
    Unknown {
        /// The subscription.
        name: SubscriptionName,
    },
    /// It belongs to another group.
    #[error(
        "subscription {name} belongs to the consumer group {recorded:?}, not to {group:?}: nothing was removed"
    )]
    OtherGroup {
        /// The subscription.
        name: SubscriptionName,
        /// The group it belongs to.
        recorded: String,
        /// The group it was to be removed from.
        group: String,
    },
    /// Messages of it are not finished. Nothing was removed.
    #[error(
        "subscription {name} has {open} open messages and {dead} dead letters: finish them first, or let them be \
         discarded, which loses them"
    )]
    Unfinished {
        /// The subscription.
        name: SubscriptionName,
        /// Its open rows.
        open: u64,
        /// Its dead letters.
        dead: u64,
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
    /// The database said no. Nothing was changed, or, if the rows' turn had come, the subscription is
    /// removed and a repeated call goes on with them.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DieselError> for RemoveError {
    fn from(error: DieselError) -> Self {
        Self::Store(error.into())
    }
}

/// Whether the subscription that was found may be removed.
pub(crate) fn check(name: &str, recorded: &str, group: &str) -> Result<(), RemoveError> {
    if recorded == group {
        return Ok(());
    }
    let name = SubscriptionName::new(name);
    Err(RemoveError::OtherGroup { name, recorded: recorded.into(), group: group.into() })
}

/// Whether its unfinished rows, by their number, allow it.
pub(crate) fn check_unfinished(
    name: &str,
    (open, dead): (i64, i64),
    unfinished: OnUnfinished,
) -> Result<(), RemoveError> {
    if unfinished == OnUnfinished::Discard || (open == 0 && dead == 0) {
        return Ok(());
    }
    let [open, dead] = [open, dead].map(i64::unsigned_abs);
    Err(RemoveError::Unfinished { name: SubscriptionName::new(name), open, dead })
}
