//! Bury: (none) → dead.

use crate::dead_letter::DeadLetter;
use crate::identity::{PartitionId, StoredId};

use super::Fence;

/// The answer to a burial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buried {
    /// Every letter has a row: its own, or, for as many as this, the one that was there already.
    Done {
        /// How many were there already, in any state.
        duplicates: usize,
    },
    /// These partitions belong to another epoch; nothing was written.
    Fenced(Vec<PartitionId>),
}

/// The partitions of these letters, each once.
pub(crate) fn fences_of(letters: &[DeadLetter]) -> Vec<Fence> {
    let mut fences: Vec<Fence> = letters.iter().map(|letter| letter.fence).collect();
    fences.sort_unstable_by_key(|fence| fence.partition);
    fences.dedup();
    fences
}

/// Letters in the order of their ids, as admission has them, or the two could wait for each other;
/// of equal ids the one with the lowest offset first: it is the one that stays.
pub(crate) fn by_id(letters: &[DeadLetter]) -> Vec<(StoredId, &DeadLetter)> {
    let mut letters: Vec<_> = letters.iter().map(|letter| (letter.id.stored(), letter)).collect();
    letters.sort_by_key(|(id, letter)| (*id, letter.record.offset()));
    letters
}
