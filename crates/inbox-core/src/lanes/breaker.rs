//! The limit of open rows: reached, whatever the handler depends on seems to be down (P5).

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, MutexGuard};

/// How many keys of a subscription have open rows in this process, and what follows.
pub(super) struct Breaker {
    limit: usize,
    counts: std::sync::Mutex<Counts>,
    /// Changed only while the counts are locked, or a trip could outlive the keys that caused it.
    tripped: AtomicBool,
    probe: Mutex<()>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    keys: usize,
    /// Those of them that a dead letter blocks: they wait for a person, not for what the handler depends on.
    blocked: usize,
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
        let counts = std::sync::Mutex::new(Counts::default());
        Self { limit, counts, tripped: AtomicBool::new(false), probe: Mutex::new(()) }
    }

    /// A key has open rows now. `true` if that was one too many.
    pub(super) fn opened(&self) -> bool {
        let mut counts = self.counts();
        counts.keys += 1;
        counts.keys >= self.limit && !self.tripped.swap(true, Ordering::Relaxed)
    }

    /// A dead letter blocks one of the keys now. `true` if everything may go on again.
    pub(super) fn blocked(&self) -> bool {
        let mut counts = self.counts();
        counts.blocked += 1;
        self.lets_go(*counts)
    }

    /// No letter blocks that key any more, and it has open rows.
    pub(super) fn unblocked(&self) {
        self.counts().blocked -= 1;
    }

    /// A key has none any more, or another owner. `true` if everything may go on again.
    pub(super) fn closed(&self, was_blocked: bool) -> bool {
        let mut counts = self.counts();
        counts.keys -= 1;
        counts.blocked -= usize::from(was_blocked);
        self.lets_go(*counts)
    }

    /// Keys that wait for a person do not hold up the others, unless they reach the limit alone.
    fn lets_go(&self, Counts { keys, blocked }: Counts) -> bool {
        keys < self.limit
            && keys - blocked < self.limit.div_ceil(2)
            && self.tripped.swap(false, Ordering::Relaxed)
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether only due heads may run, one at a time.
    pub(super) fn is_tripped(&self) -> bool {
        self.tripped.load(Ordering::Relaxed)
    }

    pub(super) fn keys(&self) -> usize {
        self.counts().keys
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
        assert_eq!([(); 3].map(|()| breaker.closed(false)), [false; 3], "two of four are half of them");
        assert!(breaker.is_tripped());
        assert!(breaker.closed(false));
        assert!(!breaker.is_tripped() && !breaker.closed(false));
        assert_eq!(breaker.keys(), 0);
        // A limit of one is reached by one key, and left without any.
        let breaker = Breaker::new(1);
        assert!(breaker.opened() && breaker.closed(false));
    }

    #[test]
    fn keys_that_wait_for_a_person_hold_up_no_others() {
        let breaker = Breaker::new(4);
        for _ in 0..3 {
            assert!(!breaker.opened() && !breaker.blocked());
        }
        assert!(breaker.opened(), "they count");
        assert!(breaker.closed(false), "three are left, all blocked");
        assert!(breaker.opened());
        assert!(!breaker.blocked(), "as many as the limit wait for a person");
        assert!(breaker.closed(true) && !breaker.is_tripped());
        assert_eq!([(); 3].map(|()| breaker.closed(true)), [false; 3]);
        assert_eq!(breaker.keys(), 0);
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
