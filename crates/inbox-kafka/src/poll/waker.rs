//! Waking a thread that looks at everything and then parks: no wake may be lost.
//!
//! A model test (`tests/tests/model.rs`) includes this file with shuttle's primitives and tries
//! many interleavings.

use super::sync::{Arc, Mutex, PoisonError, Sender, Thread, current};

/// Unparks the thread.
#[derive(Default)]
pub(crate) struct Waker(Arc<Mutex<Option<Thread>>>);

impl Waker {
    pub(crate) fn is_this_thread(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(current());
    }

    /// Before the thread runs there is nobody to wake: it looks at everything first.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.unpark();
        }
    }
}

impl Clone for Waker {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Sends to the thread, and wakes it.
pub(crate) struct Wakes<T> {
    pub(crate) sender: Sender<T>,
    pub(crate) waker: Waker,
}

impl<T> Wakes<T> {
    pub(crate) fn send(&self, wake: T) {
        // A thread that has ended wants nothing more.
        if self.sender.send(wake).is_ok() {
            self.waker.wake();
        }
    }
}

impl<T> Clone for Wakes<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), waker: self.waker.clone() }
    }
}
