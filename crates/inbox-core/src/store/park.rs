//! Park: (none) → open.

use std::time::Duration;

use crate::identity::{BusinessKey, KeyId, MessageId, SubscriptionId};
use crate::record::Record;

use super::Fence;

/// A message that cannot be finished now, and is kept with its bytes.
#[derive(Clone, Debug)]
pub struct Park {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// The ownership under which it is parked.
    pub fence: Fence,
    /// Its id.
    pub id: MessageId,
    /// Its business key, if it has one.
    pub key: Option<BusinessKey>,
    /// The original record.
    pub record: Record,
    /// How it failed; nothing for one that waits behind its key's head, and was never attempted: it is due
    /// when it becomes the head.
    pub failed: Option<Failed>,
}

/// What is written of a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The class of the failure, as stored.
    pub class: &'static str,
    /// Why, for a person.
    pub reason: String,
    /// Attempts counted so far, this one included.
    pub attempts: u32,
    /// How long ago the first attempt began.
    pub since_first: Duration,
    /// When the next one is due.
    pub due_in: Duration,
}

impl Park {
    /// What tells its key apart in the store.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        KeyId::of(self.key.as_ref(), self.id.stored())
    }
}
