//! One message for one subscription under one epoch.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::time::Instant;

use crate::dead_letter::{DeadClass, DeadLetter};
use crate::identity::{BusinessKey, KeyId, MessageId, Offset, Place, StoredId, SubscriptionId};
use crate::inbox::{AnyMessage, Owner};
use crate::record::Record;
use crate::store::{Admit, Failed, Park, Started};
use crate::subscription::Rejection;

use super::open_keys::OpenPlace;
use super::queue::Kind;

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
    /// The open row that it is, if it is one: the head of its key, started by its lane. The transport knows
    /// nothing of it, since the record behind it is finished.
    pub(super) row: Option<Started>,
    /// When it was last run alone.
    pub(super) began: Instant,
    /// When its first attempt that counted began.
    pub(super) first_attempt: Option<Instant>,
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
    Park(Box<Parking>),
    Bury(Box<Burial>),
}

/// What is kept of a message that no handler is to see now.
pub(super) struct Kept {
    pub(super) id: MessageId,
    pub(super) key: Option<BusinessKey>,
    pub(super) record: Record,
}

/// How a unit to park failed; nothing if it only waits behind its key's head.
pub(super) struct Parking {
    pub(super) kept: Kept,
    pub(super) failed: Option<Failed>,
}

/// Why a unit is to be buried.
pub(super) struct Burial {
    pub(super) kept: Kept,
    pub(super) class: DeadClass,
    pub(super) reason: String,
    /// Whether it holds its key.
    pub(super) blocks: bool,
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
        blocks: bool,
    ) -> Self {
        let mut unit = Self::new(subscription, owner, fingerprint, Work::rejected(rejection, blocks));
        // No handler will see it.
        unit.attempt = 0;
        unit
    }

    /// The head of a key, read again.
    pub(super) fn of_row(
        subscription: usize,
        owner: &Arc<Owner>,
        fingerprint: i32,
        work: Work,
        row: Started,
    ) -> Self {
        let mut unit = Self::new(subscription, owner, fingerprint, work);
        // As the row has it, whatever the rules say of its record today.
        unit.stored_id = row.id;
        unit.row = Some(row);
        unit
    }

    fn new(subscription: usize, owner: &Arc<Owner>, fingerprint: i32, work: Work) -> Self {
        let record = work.record();
        let (offset, size) = (record.offset(), record.size());
        let stored_id = work.id().stored();
        Self(Box::new(Parts {
            subscription,
            order: order_of(subscription, owner, work.key(), || KeyId::of(None, stored_id)),
            owner: Arc::clone(owner),
            offset,
            size,
            arrival: 0,
            stored_id,
            fingerprint,
            work,
            row: None,
            began: Instant::now(),
            first_attempt: None,
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

    /// Its key, as the lane knows those with open rows.
    pub(super) fn open_place(&self) -> OpenPlace {
        OpenPlace {
            subscription: self.0.subscription,
            partition: self.owner.fence().partition,
            key: KeyId::of(self.key(), self.stored_id),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match &self.work {
            _ if self.row.is_some() => Kind::Head,
            Work::Handle(_) => Kind::Message,
            Work::Park(_) => Kind::Parking,
            Work::Bury(_) => Kind::Burial,
        }
    }

    fn kept(&self) -> Kept {
        Kept { id: self.id().clone(), key: self.key().cloned(), record: self.work.record().clone() }
    }

    /// From now on this unit is to be parked.
    pub(super) fn turn_to_parking(&mut self, failed: Option<Failed>) {
        self.work = Work::Park(Box::new(Parking { kept: self.kept(), failed }));
        self.strikes = 0;
    }

    /// From now on this unit is to be buried.
    pub(super) fn turn_to_burial(&mut self, class: DeadClass, reason: String, blocks: bool) {
        let (kept, with_bytes) = (self.kept(), true);
        self.work = Work::Bury(Box::new(Burial { kept, class, reason, blocks, with_bytes }));
        self.strikes = 0;
    }

    /// What is written of a unit that is to be parked.
    pub(super) fn park(&self, subscription: SubscriptionId) -> Option<Park> {
        let Work::Park(parking) = &self.work else { return None };
        let Kept { id, key, record } = &parking.kept;
        Some(Park {
            subscription,
            fence: self.owner.fence(),
            id: id.clone(),
            key: key.clone(),
            record: record.clone(),
            failed: parking.failed.clone(),
        })
    }

    /// The letter of a unit that is to be buried.
    pub(super) fn letter(&self, subscription: SubscriptionId) -> Option<DeadLetter> {
        let Work::Bury(burial) = &self.work else { return None };
        let Kept { id, key, record } = &burial.kept;
        Some(DeadLetter {
            subscription,
            fence: self.owner.fence(),
            id: id.clone(),
            key: key.clone(),
            class: burial.class,
            reason: burial.reason.clone(),
            attempts: self.attempt,
            since_first: self.first_attempt.map(|at| at.elapsed()),
            record: record.clone(),
            blocks: burial.blocks,
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
    /// A record that no handler can be given.
    pub(super) fn rejected(rejection: Rejection, blocks: bool) -> Self {
        let Rejection { class, reason, id, key, record } = rejection;
        let blocks = blocks && key.is_some();
        let kept = Kept { id, key, record };
        Self::Bury(Box::new(Burial { kept, class, reason, blocks, with_bytes: true }))
    }

    fn id(&self) -> &MessageId {
        match self {
            Self::Handle(message) => message.id(),
            Self::Park(parking) => &parking.kept.id,
            Self::Bury(burial) => &burial.kept.id,
        }
    }

    fn key(&self) -> Option<&BusinessKey> {
        match self {
            Self::Handle(message) => message.key(),
            Self::Park(parking) => parking.kept.key.as_ref(),
            Self::Bury(burial) => burial.kept.key.as_ref(),
        }
    }

    fn record(&self) -> &Record {
        match self {
            Self::Handle(message) => message.record(),
            Self::Park(parking) => &parking.kept.record,
            Self::Bury(burial) => &burial.kept.record,
        }
    }
}

pub(super) fn order_of(
    subscription: usize,
    owner: &Owner,
    key: Option<&BusinessKey>,
    without_key: impl FnOnce() -> KeyId,
) -> u64 {
    let mut hasher = DefaultHasher::new();
    (subscription, owner.fence().partition).hash(&mut hasher);
    match key {
        Some(key) => key.hash(&mut hasher),
        // No order to keep: it shares its order with nobody but its own resends, since one lane has an open row.
        None => without_key().hash(&mut hasher),
    }
    hasher.finish()
}
