//! Warnings that a fault would repeat for as long as it lasts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Says when it is time to warn again: what comes in between is for the debug log.
pub(crate) struct Seldom {
    wait: Duration,
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    pub(crate) fn new(wait: Duration) -> Self {
        Self { wait, last: Mutex::new(None) }
    }

    pub(crate) fn is_time(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = last.is_none_or(|last| last.elapsed() >= self.wait);
        if is_time {
            *last = Some(Instant::now());
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_time_and_then_seldom() {
        let seldom = Seldom::new(Duration::from_secs(10));
        assert!(seldom.is_time());
        assert!(!seldom.is_time());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(seldom.is_time());
        assert!(!seldom.is_time());
    }
}
