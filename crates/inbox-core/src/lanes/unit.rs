//! One message for one subscription under one epoch.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::dead_letter::{DeadClass, DeadLetter};
use crate::identity::{BusinessKey, MessageId, Offset, Place, StoredId, SubscriptionId};
use crate::inbox::{AnyMessage, Owner};
use crate::record::Record;
use crate::store::Admit;
use crate::subscription::Rejection;

/// What a lane works on. Boxed once, since it moves from queue to queue.
pub(crate) struct Unit(Box<Parts>);

pub(crate) struct Parts {
    pub(super) subscription: usize,
    pub(super) owner: Arc<Owner>,
    pub(super) offset: Offset,
    /// Bytes of its record.
    pub(super) size: usize,
    /// Units of one order run in the order of their offsets, one at a time: a hash of subscription,
    /// partition and business key. Two keys that share a hash only wait for each other.
    pub(super) order: u64,
    /// Its number among the units of its lane.
    pub(super) arrival: u64,
    pub(super) stored_id: StoredId,
    pub(super) fingerprint: i32,
    pub(super) work: Work,
    /// Attempts that were counted against the message, plus one.
    pub(super) attempt: u32,
    /// How often in a row something that may not be the message's fault failed while it ran alone,
    /// although the database was healthy.
    pub(super) strikes: u32,
    /// How often it was run again, uncounted, since it may have been the victim of another batch.
    pub(super) reruns: u32,
}

/// What is to be done with a unit.
pub(super) enum Work {
    Handle(AnyMessage),
    Bury(Box<Burial>),
}

/// Why a unit is to be buried, and what is kept of it.
pub(super) struct Burial {
    pub(super) class: DeadClass,
    pub(super) reason: String,
    pub(super) id: MessageId,
    pub(super) key: Option<BusinessKey>,
    pub(super) record: Record,
    /// False when not even its bytes could be stored.
    pub(super) with_bytes: bool,
}

impl Deref for Unit {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl DerefMut for Unit {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

impl Unit {
    /// Strikes after which a message that only fails outside its handler is buried.
    pub(super) const MAX_STRIKES: u32 = 3;
    /// Reruns of a message alone before a failure that may be another batch's doing counts as its own.
    pub(super) const MAX_RERUNS: u32 = 3;

    pub(crate) fn to_handle(
        subscription: usize,
        owner: &Arc<Owner>,
        fingerprint: i32,
        message: AnyMessage,
    ) -> Self {
        Self::new(subscription, owner, fingerprint, Work::Handle(message))
    }

    pub(crate) fn to_bury(
        subscription: usize,
        owner: &Arc<Owner>,
        fingerprint: i32,
        rejection: Rejection,
    ) -> Self {
        let Rejection { class, reason, id, key, record } = rejection;
        let work = Work::Bury(Box::new(Burial { class, reason, id, key, record, with_bytes: true }));
        let mut unit = Self::new(subscription, owner, fingerprint, work);
        // No handler will see it.
        unit.attempt = 0;
        unit
    }

    fn new(subscription: usize, owner: &Arc<Owner>, fingerprint: i32, work: Work) -> Self {
        let record = work.record();
        let (offset, size) = (record.offset(), record.size());
        Self(Box::new(Parts {
            subscription,
            order: order_of(subscription, owner, work.key(), offset),
            owner: Arc::clone(owner),
            offset,
            size,
            arrival: 0,
            stored_id: work.id().stored(),
            fingerprint,
            work,
            attempt: 1,
            strikes: 0,
            reruns: 0,
        }))
    }

    pub(super) fn id(&self) -> &MessageId {
        self.work.id()
    }

    pub(super) fn key(&self) -> Option<&BusinessKey> {
        self.work.key()
    }

    pub(super) fn admit(&self) -> Admit {
        Admit {
            id: self.stored_id,
            partition: self.owner.fence().partition,
            offset: self.offset,
            fingerprint: self.fingerprint,
        }
    }

    /// From now on this unit is to be buried.
    pub(super) fn turn_to_burial(&mut self, class: DeadClass, reason: String) {
        let (id, key, record) = (self.id().clone(), self.key().cloned(), self.work.record().clone());
        self.work = Work::Bury(Box::new(Burial { class, reason, id, key, record, with_bytes: true }));
        self.strikes = 0;
    }

    /// The letter of a unit that is to be buried.
    pub(super) fn letter(&self, subscription: SubscriptionId) -> Option<DeadLetter> {
        let Work::Bury(burial) = &self.work else { return None };
        Some(DeadLetter {
            subscription,
            fence: self.owner.fence(),
            id: burial.id.clone(),
            key: burial.key.clone(),
            class: burial.class,
            reason: burial.reason.clone(),
            attempts: self.attempt,
            record: burial.record.clone(),
            since_first: None,
            blocks: false,
            with_bytes: burial.with_bytes,
        })
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    pub(crate) fn subscription(&self) -> usize {
        self.0.subscription
    }

    pub(crate) fn offset(&self) -> Offset {
        self.offset
    }

    /// Where its record is.
    pub(super) fn place(&self) -> &Place {
        &self.work.record().place
    }
}

impl Work {
    fn id(&self) -> &MessageId {
        match self {
            Self::Handle(message) => message.id(),
            Self::Bury(burial) => &burial.id,
        }
    }

    fn key(&self) -> Option<&BusinessKey> {
        match self {
            Self::Handle(message) => message.key(),
            Self::Bury(burial) => burial.key.as_ref(),
        }
    }

    fn record(&self) -> &Record {
        match self {
            Self::Handle(message) => message.record(),
            Self::Bury(burial) => &burial.record,
        }
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
