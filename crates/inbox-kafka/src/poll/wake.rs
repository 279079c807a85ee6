//! What wakes the poll thread.

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use inbox_core::StoreError;
use inbox_core::inbox::{Event, Owner};
use inbox_core::store::Flushed;

use crate::context::Place;
use crate::error::Error;

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

/// Unparks the poll thread.
#[derive(Clone, Default)]
pub(crate) struct Waker(Arc<OnceLock<Thread>>);

impl Waker {
    pub(crate) fn is_this_thread(&self) {
        let _ = self.0.set(std::thread::current());
    }

    /// Before the thread runs there is nobody to wake: it looks at everything first.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

/// Sends to the poll thread, and wakes it.
#[derive(Clone)]
pub(crate) struct Wakes {
    pub(crate) sender: Sender<Wake>,
    pub(crate) waker: Waker,
}

impl Wakes {
    pub(crate) fn send(&self, wake: Wake) {
        // A thread that has ended wants nothing more.
        if self.sender.send(wake).is_ok() {
            self.waker.wake();
        }
    }
}
