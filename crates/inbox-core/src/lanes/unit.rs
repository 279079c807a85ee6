//! One message for one subscription under one epoch.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::dead_letter::{DeadClass, DeadLetter};
use crate::identity::{BusinessKey, MessageId, Offset, StoredId, SubscriptionId};
use crate::inbox::{AnyMessage, End, Ended, Owner};
use crate::record::Record;
use crate::store::Admit;
use crate::subscription::Rejection;

/// What a lane works on.
pub(crate) struct Unit {
    pub(super) subscription: usize,
    pub(super) owner: Arc<Owner>,
    pub(super) record: Arc<Record>,
    /// Units of one order run in the order of their offsets, one at a time: a hash of subscription,
    /// partition and business key. Two keys that share a hash only wait for each other.
    pub(super) order: u64,
    /// Its number among the units of its lane.
    pub(super) arrival: u64,
    pub(super) id: MessageId,
    pub(super) stored_id: StoredId,
    pub(super) key: Option<BusinessKey>,
    pub(super) fingerprint: i32,
    pub(super) work: Work,
    /// Attempts that were counted against the message, plus one.
    pub(super) attempt: u32,
    /// How often something that is not the message's failed while it ran alone, although the
    /// database was healthy.
    pub(super) strikes: u32,
}

/// What is to be done with a unit.
pub(super) enum Work {
    Handle(AnyMessage),
    Bury { class: DeadClass, reason: String, with_bytes: bool },
}

impl Unit {
    /// Strikes after which a message that only fails outside its handler is buried.
    pub(super) const MAX_STRIKES: u32 = 3;

    pub(crate) fn to_handle(
        subscription: usize,
        owner: &Arc<Owner>,
        record: &Arc<Record>,
        fingerprint: i32,
        (id, key): (MessageId, Option<BusinessKey>),
        message: AnyMessage,
    ) -> Self {
        Self::new(subscription, owner, record, fingerprint, (id, key), Work::Handle(message))
    }

    pub(crate) fn to_bury(
        subscription: usize,
        owner: &Arc<Owner>,
        record: &Arc<Record>,
        fingerprint: i32,
        rejection: Rejection,
    ) -> Self {
        let Rejection { class, reason, id, key } = rejection;
        let work = Work::Bury { class, reason, with_bytes: true };
        Self::new(subscription, owner, record, fingerprint, (id, key), work)
    }

    fn new(
        subscription: usize,
        owner: &Arc<Owner>,
        record: &Arc<Record>,
        fingerprint: i32,
        (id, key): (MessageId, Option<BusinessKey>),
        work: Work,
    ) -> Self {
        Self {
            subscription,
            order: order_of(subscription, owner, key.as_ref(), record.offset()),
            owner: Arc::clone(owner),
            record: Arc::clone(record),
            arrival: 0,
            stored_id: id.stored(),
            id,
            key,
            fingerprint,
            work,
            attempt: 1,
            strikes: 0,
        }
    }

    pub(super) fn admit(&self) -> Admit {
        Admit {
            id: self.stored_id,
            partition: self.owner.fence().partition,
            offset: self.record.offset(),
            fingerprint: self.fingerprint,
        }
    }

    pub(super) fn is_burial(&self) -> bool {
        matches!(self.work, Work::Bury { .. })
    }

    /// From now on this unit is to be buried.
    pub(super) fn turn_to_burial(&mut self, class: DeadClass, reason: String) {
        self.work = Work::Bury { class, reason, with_bytes: true };
        self.strikes = 0;
    }

    /// The letter of a unit that is to be buried.
    pub(super) fn letter(&self, subscription: SubscriptionId) -> Option<DeadLetter> {
        let Work::Bury { class, reason, with_bytes } = &self.work else { return None };
        Some(DeadLetter {
            subscription,
            fence: self.owner.fence(),
            id: self.id.clone(),
            key: self.key.clone(),
            class: *class,
            reason: reason.clone(),
            attempts: self.attempt,
            record: Arc::clone(&self.record),
            with_bytes: *with_bytes,
        })
    }

    pub(super) fn ended(self, end: End) -> Ended {
        Ended { owner: self.owner, subscription: self.subscription, offset: self.record.offset(), end }
    }
}

fn order_of(subscription: usize, owner: &Owner, key: Option<&BusinessKey>, offset: Offset) -> u64 {
    let mut hasher = DefaultHasher::new();
    (subscription, owner.fence().partition).hash(&mut hasher);
    match key {
        Some(key) => key.hash(&mut hasher),
        // No order to keep: it shares its order with nobody.
        None => offset.hash(&mut hasher),
    }
    hasher.finish()
}
