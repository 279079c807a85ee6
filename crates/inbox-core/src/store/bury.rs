//! Bury: (none) → dead.

use crate::identity::PartitionId;

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
