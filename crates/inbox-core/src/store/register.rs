//! Register: a subscription is recorded with its group, id rule and key rule.

use crate::identity::{Offset, Partition, SubscriptionName, Topic};

use super::StoreError;

/// A subscription as it is recorded.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Its durable name.
    pub name: SubscriptionName,
    /// Its id rule as text.
    pub id_rule: String,
    /// Its key rule as text.
    pub key_rule: String,
    /// Where it begins if it is new.
    pub first: First,
}

/// Where a subscription begins that is not recorded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// Each partition at its first record, when it is taken over for the first time.
    Earliest,
    /// These partitions at these offsets; others at their first record.
    At(Vec<(Topic, Partition, Offset)>),
    /// Nobody said, and Kafka has committed offsets of the group. At the first record if the database
    /// knows the group; otherwise it is refused.
    Unsaid,
}

/// Why a subscription was not registered. Nothing was consumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// It belongs to another consumer group, which would deliver everything a second time.
    #[error(
        "subscription {name} belongs to the consumer group {recorded:?}, not {wanted:?}: consume it in that \
         group, move it with `store.move_subscription(…)`, or give the handler a new subscription name, under which it sees every message again"
    )]
    OtherGroup {
        /// The subscription.
        name: SubscriptionName,
        /// The group it belongs to.
        recorded: String,
        /// The group it was registered in.
        wanted: String,
    },
    /// A rule changed: old messages would get other ids or another order.
    #[error(
        "subscription {name} is recorded with {rule} = {recorded}, not {wanted}: keep the rule, or give the \
         handler a new subscription name, under which it sees every message again"
    )]
    OtherRule {
        /// The subscription.
        name: SubscriptionName,
        /// `id` or `key`.
        rule: &'static str,
        /// The rule as recorded.
        recorded: String,
        /// The rule as it was registered.
        wanted: String,
    },
    /// The group has committed offsets, so it has handled messages, but not with this database.
    #[error(
        "the consumer group {group:?} has committed offsets, but the database knows nothing of it: say where \
         subscription {name} begins, with `start = committed` to go on where the group is, or `earliest`, `latest` \
         or `time(…)`"
    )]
    StartUnsaid {
        /// The subscription.
        name: SubscriptionName,
        /// The group.
        group: String,
    },
    /// One of this name was removed, and nobody says that it is meant to be a new one: a service that was
    /// still running at the removal and starts again would handle everything a second time.
    #[error(
        "subscription {name} was removed from this database, and the consumer group {group:?} has committed offsets: \
         leave its handler out of the service, or say where the new subscription of this name begins, with \
         `start = committed`, `earliest`, `latest` or `time(…)`"
    )]
    WasRemoved {
        /// The subscription.
        name: SubscriptionName,
        /// The group.
        group: String,
    },
    /// The database said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the store has of a subscription.
pub(crate) struct Recorded {
    pub(crate) group: String,
    pub(crate) id_rule: String,
    pub(crate) key_rule: String,
}

impl Registration {
    /// Whether one that was just recorded may begin.
    pub(crate) fn check_start(&self, group: &str, group_is_known: bool) -> Result<(), RegisterError> {
        if self.first == First::Unsaid && !group_is_known {
            return Err(RegisterError::StartUnsaid { name: self.name.clone(), group: group.into() });
        }
        Ok(())
    }

    /// Whether one that was just recorded may follow one of the same name that was removed.
    pub(crate) fn check_removed(&self, group: &str, was_removed: bool) -> Result<(), RegisterError> {
        if self.first == First::Unsaid && was_removed {
            return Err(RegisterError::WasRemoved { name: self.name.clone(), group: group.into() });
        }
        Ok(())
    }

    /// Whether the recorded subscription is this one.
    pub(crate) fn check(&self, group: &str, recorded: Recorded) -> Result<(), RegisterError> {
        let name = self.name.clone();
        if recorded.group != group {
            return Err(RegisterError::OtherGroup { name, recorded: recorded.group, wanted: group.into() });
        }
        for (rule, recorded, wanted) in
            [("id", recorded.id_rule, &self.id_rule), ("key", recorded.key_rule, &self.key_rule)]
        {
            if recorded != *wanted {
                return Err(RegisterError::OtherRule { name, rule, recorded, wanted: wanted.clone() });
            }
        }
        Ok(())
    }
}
