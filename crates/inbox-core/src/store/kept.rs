//! What is kept of a message that is not finished: the row that parking and burial write.

use std::time::Duration;

use crate::dead_letter::DeadLetter;
use crate::identity::{BusinessKey, KeyId, MessageId, PartitionId, StoredId, SubscriptionId};
use crate::record::Record;
use crate::stored;

use super::{Fence, Park, RowState, Started, Transition};

/// The answer to a parking or a burial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Every message has a row: its own, or, for as many as this, the one that was there already.
    Done {
        /// How many were there already, in any state.
        duplicates: usize,
    },
    /// These partitions belong to another epoch; nothing was written.
    Fenced(Vec<PartitionId>),
}

impl Written {
    /// The same answer for a started row. One that is gone was ended by somebody else, or by a statement of ours
    /// whose answer was lost.
    pub(crate) fn of(row: &Started, end: Transition) -> Self {
        match end {
            Transition::Done => Self::Done { duplicates: 0 },
            Transition::Gone => Self::Done { duplicates: 1 },
            Transition::Fenced => Self::Fenced(vec![row.fence.partition]),
        }
    }
}

/// An open or dead row that is new.
pub(crate) struct Kept<'a> {
    pub(crate) state: RowState,
    pub(crate) subscription: SubscriptionId,
    pub(crate) fence: Fence,
    pub(crate) stored_id: StoredId,
    pub(crate) id: &'a MessageId,
    pub(crate) key: Option<&'a BusinessKey>,
    pub(crate) record: &'a Record,
    /// Whether the record's bytes are kept too.
    pub(crate) with_bytes: bool,
    pub(crate) class: Option<&'static str>,
    pub(crate) reason: Option<String>,
    pub(crate) attempts: i32,
    pub(crate) since_first: Option<Duration>,
    pub(crate) due_in: Option<Duration>,
    /// Whether it holds its key: true, or nothing.
    pub(crate) blocks: Option<bool>,
}

impl<'a> From<&'a DeadLetter> for Kept<'a> {
    fn from(letter: &'a DeadLetter) -> Self {
        Self {
            state: RowState::Dead,
            subscription: letter.subscription,
            fence: letter.fence,
            stored_id: letter.id.stored(),
            id: &letter.id,
            key: letter.key.as_ref(),
            record: &letter.record,
            with_bytes: letter.with_bytes,
            class: Some(letter.class.as_str()),
            reason: Some(letter.stored_reason()),
            attempts: stored_attempts(letter.attempts),
            since_first: letter.since_first,
            due_in: None,
            blocks: letter.blocks.then_some(true),
        }
    }
}

impl<'a> From<&'a Park> for Kept<'a> {
    fn from(park: &'a Park) -> Self {
        let failed = park.failed.as_ref();
        Self {
            state: RowState::Open,
            subscription: park.subscription,
            fence: park.fence,
            stored_id: park.id.stored(),
            id: &park.id,
            key: park.key.as_ref(),
            record: &park.record,
            with_bytes: true,
            class: failed.map(|failed| failed.class),
            reason: failed.map(|failed| stored::reason(&failed.reason)),
            attempts: failed.map_or(0, |failed| stored_attempts(failed.attempts)),
            since_first: failed.map(|failed| failed.since_first),
            due_in: failed.map(|failed| failed.due_in),
            blocks: None,
        }
    }
}

impl Kept<'_> {
    pub(crate) fn key_id(&self) -> KeyId {
        KeyId::of(self.key, self.stored_id)
    }

    pub(crate) fn headers(&self) -> Option<Vec<u8>> {
        self.with_bytes.then(|| stored::encode_headers(&self.record.headers))
    }

    pub(crate) fn record_key(&self) -> Option<&[u8]> {
        self.record.key.as_deref().filter(|_| self.with_bytes)
    }

    pub(crate) fn payload(&self) -> Option<&[u8]> {
        self.record.value.as_deref().filter(|_| self.with_bytes)
    }
}

/// In the order of their ids, as admission has them, or the two could wait for each other; of equal ids the
/// one with the lowest offset first: it is the one that stays.
pub(crate) fn by_id<'a, T>(messages: &'a [T]) -> Vec<Kept<'a>>
where
    Kept<'a>: From<&'a T>,
{
    let mut rows: Vec<Kept<'a>> = messages.iter().map(Kept::from).collect();
    rows.sort_by_key(|row| (row.stored_id, row.record.offset()));
    rows
}

/// The partitions of these rows, each once, sorted.
pub(crate) fn fences_of(rows: &[Kept<'_>]) -> Vec<Fence> {
    let mut fences: Vec<Fence> = rows.iter().map(|row| row.fence).collect();
    fences.sort_unstable_by_key(|fence| fence.partition);
    fences.dedup();
    fences
}

pub(crate) fn stored_attempts(attempts: u32) -> i32 {
    i32::try_from(attempts).unwrap_or(i32::MAX)
}
