//! The limit of open rows: reached, whatever the handler depends on seems to be down (P5).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Mutex, MutexGuard};

/// How many keys of a subscription have open rows in this process, and what follows.
pub(super) struct Breaker {
    limit: usize,
    keys: AtomicUsize,
    tripped: AtomicBool,
    probe: Mutex<()>,
}

/// Whether the head of a key may run.
pub(super) enum Permit<'a> {
    /// Any may.
    Free,
    /// This one, and no other meanwhile.
    Probe(MutexGuard<'a, ()>),
    /// Another one runs.
    Busy,
}

impl Breaker {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, keys: AtomicUsize::new(0), tripped: AtomicBool::new(false), probe: Mutex::new(()) }
    }

    /// A key has open rows now. `true` if that was one too many.
    pub(super) fn opened(&self) -> bool {
        let keys = self.keys.fetch_add(1, Ordering::Relaxed) + 1;
        keys >= self.limit && !self.tripped.swap(true, Ordering::Relaxed)
    }

    /// As many keys have none any more. `true` if everything may go on again.
    pub(super) fn closed(&self, count: usize) -> bool {
        let keys = self.keys.fetch_sub(count, Ordering::Relaxed) - count;
        keys < self.limit.div_ceil(2) && self.tripped.swap(false, Ordering::Relaxed)
    }

    /// Whether only due heads may run, one at a time.
    pub(super) fn is_tripped(&self) -> bool {
        self.tripped.load(Ordering::Relaxed)
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(super) fn permit(&self) -> Permit<'_> {
        if !self.is_tripped() {
            return Permit::Free;
        }
        self.probe.try_lock().map_or(Permit::Busy, Permit::Probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_trips_at_the_limit_and_lets_go_below_half() {
        let breaker = Breaker::new(4);
        assert_eq!([(); 5].map(|()| breaker.opened()), [false, false, false, true, false]);
        assert!(breaker.is_tripped());
        assert!(!breaker.closed(3), "two of four are half of them");
        assert!(breaker.is_tripped());
        assert!(breaker.closed(1));
        assert!(!breaker.is_tripped() && !breaker.closed(1));
        assert_eq!(breaker.keys(), 0);
        // A limit of one is reached by one key, and left without any.
        let breaker = Breaker::new(1);
        assert!(breaker.opened() && breaker.closed(1));
    }

    #[test]
    fn tripped_it_lets_one_run_at_a_time() {
        let breaker = Breaker::new(1);
        assert!(matches!(breaker.permit(), Permit::Free));
        breaker.opened();
        let one = breaker.permit();
        assert!(matches!((&one, breaker.permit()), (Permit::Probe(_), Permit::Busy)));
        drop(one);
        assert!(matches!(breaker.permit(), Permit::Probe(_)));
    }
}
