//! What wakes the poll thread.

use inbox_core::StoreError;
use inbox_core::inbox::Event;
use inbox_core::store::Flushed;

use crate::context::Place;
use crate::topics::Found;

use super::claim::{Claim, Refusal};
use super::waker;

/// What the poll thread is told by others.
pub(crate) enum Wake {
    /// By the engine.
    Engine(Event),
    /// A claim has ended.
    Claimed { place: Place, claim: u64, result: Box<Result<Claim, Refusal>> },
    /// A flush has ended.
    Flushed { flush: u64, result: Result<Vec<Flushed>, StoreError> },
    /// Which topics there are.
    Topics(Found),
    /// End gracefully.
    Stop,
}

/// Sends to the poll thread, and wakes it.
pub(crate) type Wakes = waker::Wakes<Wake>;
