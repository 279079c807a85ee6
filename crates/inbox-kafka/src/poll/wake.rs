//! What wakes the poll thread.

use inbox_core::StoreError;
use inbox_core::inbox::{Event, Owner};
use inbox_core::store::Flushed;

use crate::context::Place;
use crate::error::Error;

use super::waker;

/// What the poll thread is told by others.
pub(crate) enum Wake {
    /// By the engine.
    Engine(Event),
    /// A claim has ended.
    Claimed { place: Place, claim: u64, result: Result<Owner, Error> },
    /// A flush has ended.
    Flushed(Result<Vec<Flushed>, StoreError>),
    /// End gracefully.
    Stop,
}

/// Sends to the poll thread, and wakes it.
pub(crate) type Wakes = waker::Wakes<Wake>;
