//! Admit: insert the inbox rows inside the effect's transaction (P1).

use crate::identity::{Offset, PartitionId, StoredId, SubscriptionId};

use super::Fence;

/// The messages of one batch: one subscription, distinct ids, sorted by id.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Whose messages they are.
    pub subscription: SubscriptionId,
    /// Every partition the messages come from, once, sorted by number.
    pub fences: Vec<Fence>,
    /// The messages, sorted by id without repetition: or overlapping batches would deadlock.
    pub messages: Vec<Admit>,
    /// Tell a wait for another transaction with the same id from other errors. Costs a
    /// subtransaction; only for a message alone that has failed in admission before.
    pub patient: bool,
}

/// One message to admit.
#[derive(Clone, Copy, Debug)]
pub struct Admit {
    /// Its id.
    pub id: StoredId,
    /// Where it came from.
    pub partition: PartitionId,
    /// Its offset there.
    pub offset: Offset,
    /// 32 bits of its payload's hash.
    pub fingerprint: i32,
}

/// The answer to an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The transaction is open and holds receipts for all messages but these.
    Open(Vec<Conflict>),
    /// These partitions belong to another epoch; nothing was written, no transaction is open.
    Fenced(Vec<PartitionId>),
    /// Another transaction holds the id longer than the lock time-out; no transaction is open.
    Waiting,
}

/// A message whose row was there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its index in [`Admission::messages`].
    pub index: usize,
    /// The row's state.
    pub state: RowState,
    /// Whether the row was written for another payload: a sender used an id twice.
    pub other_payload: bool,
}

/// The states of a row. The numbers are stored: a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// 0: kept with its bytes, to be finished.
    Open,
    /// 1: a dead letter.
    Dead,
    /// 2: a receipt.
    Done,
}

impl RowState {
    pub(crate) fn stored(self) -> i16 {
        match self {
            Self::Open => 0,
            Self::Dead => 1,
            Self::Done => 2,
        }
    }

    pub(crate) fn from_stored(state: i32) -> Option<Self> {
        match state {
            0 => Some(Self::Open),
            1 => Some(Self::Dead),
            2 => Some(Self::Done),
            _ => None,
        }
    }
}
