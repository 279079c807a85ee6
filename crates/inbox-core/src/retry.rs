//! When a failed message is tried again, and when no more.

use std::time::Duration;

use crate::failure::FailureClass;

/// How a message that failed by itself is tried again: first in memory, then parked in the database.
///
/// The wait before the next attempt is drawn at random from zero up to `base` after the first failure, up to
/// twice that after the second, and so on, up to `cap` ("full jitter": messages that failed together are not
/// tried again together). A handler that knows better names the wait itself, see
/// [`Failure::transient_after`](crate::Failure::transient_after).
///
/// ```
/// use std::time::Duration;
///
/// use inbox_core::RetryPolicy;
///
/// let patient = RetryPolicy { max_elapsed: Duration::from_hours(72), max_attempts: 500, ..RetryPolicy::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in memory before a message is parked: they cost no row, but hold the partition's watermark, and
    /// begin again after a restart. Default 3. A wait longer than 10 s parks at once.
    pub in_place: u32,
    /// What the first wait is drawn from. Default 1 s.
    pub base: Duration,
    /// What no wait exceeds that is drawn. Default 10 min.
    pub cap: Duration,
    /// Attempts in all, in memory and parked. Default 25: with the other defaults about an hour and a quarter. The
    /// message then becomes a dead letter of class `exhausted`.
    pub max_attempts: u32,
    /// No attempt is begun later than this after the first one. Default 24 h. What a message waited before,
    /// in a backlog or behind others, does not count.
    pub max_elapsed: Duration,
    /// Attempts in all while the failure is a broken [constraint](FailureClass::Constraint). Default 5.
    pub constraint_attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            in_place: 3,
            base: Duration::from_secs(1),
            cap: Duration::from_mins(10),
            max_attempts: 25,
            max_elapsed: Duration::from_hours(24),
            constraint_attempts: 5,
        }
    }
}

/// A message's attempts, the last of which has just failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    /// How many were counted.
    pub(crate) attempts: u32,
    /// How long ago the first one began.
    pub(crate) since_first: Duration,
    /// Why the last one failed.
    pub(crate) class: FailureClass,
    /// The wait that the handler asked for.
    pub(crate) asked: Option<Duration>,
}

/// What follows from a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Again from memory, after this wait.
    InPlace(Duration),
    /// Parked, and due after this wait.
    Park(Duration),
    /// No more: why, for a person.
    Bury(String),
}

impl RetryPolicy {
    /// The longest wait in memory: a longer one would hold the watermark up for nothing.
    const LONGEST_IN_PLACE: Duration = Duration::from_secs(10);

    /// What follows. `random` is evenly drawn from 0 to 1.
    pub(crate) fn next(&self, tried: Tried, random: f64) -> Next {
        let limit = match tried.class {
            FailureClass::Constraint => self.max_attempts.min(self.constraint_attempts),
            _ => self.max_attempts,
        };
        if tried.attempts >= limit {
            return Next::Bury(format!("it failed at each of {} attempts", tried.attempts));
        }
        let wait = tried.asked.unwrap_or_else(|| self.wait(tried.attempts, random));
        if tried.since_first.saturating_add(wait) > self.max_elapsed {
            return Next::Bury(format!(
                "it failed at each of {} attempts, and the next one would begin later than {:?} after the first",
                tried.attempts, self.max_elapsed
            ));
        }
        if tried.attempts < self.in_place && wait <= Self::LONGEST_IN_PLACE {
            Next::InPlace(wait)
        } else {
            Next::Park(wait)
        }
    }

    /// The wait after this many failed attempts.
    pub(crate) fn wait(&self, failed: u32, random: f64) -> Duration {
        let doubled = 2_u32.saturating_pow(failed.saturating_sub(1).min(31));
        self.base.saturating_mul(doubled).min(self.cap).mul_f64(random.clamp(0.0, 1.0))
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.max_attempts == 0 || self.constraint_attempts == 0 {
            return Some("its retries have zero attempts: no message would be handled; 1 tries once".into());
        }
        if self.base.is_zero() || self.cap.is_zero() {
            return Some(
                "its retries wait for zero time: a failing message would be tried without a pause".into(),
            );
        }
        let year = Duration::from_hours(24 * 365);
        [self.base, self.cap, self.max_elapsed].iter().any(|time| *time > year).then(|| {
            "its retries go on for more than a year: a unit was mistaken, or nobody would ever know".into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(attempts: u32, seconds: u64) -> Tried {
        Tried {
            attempts,
            since_first: Duration::from_secs(seconds),
            class: FailureClass::Transient,
            asked: None,
        }
    }

    /// With clock and randomness fixed the whole schedule is known.
    #[test]
    fn the_default_schedule() {
        let policy = RetryPolicy::default();
        let mut clock = Duration::ZERO;
        let mut waits = Vec::new();
        for attempts in 1.. {
            match policy.next(Tried { since_first: clock, ..tried(attempts, 0) }, 0.5) {
                Next::InPlace(wait) => {
                    assert!(attempts < 3);
                    clock += wait;
                    waits.push(wait.as_millis());
                }
                Next::Park(wait) => {
                    assert!(attempts >= 3);
                    clock += wait;
                    waits.push(wait.as_millis());
                }
                Next::Bury(reason) => {
                    assert_eq!((attempts, &*reason), (25, "it failed at each of 25 attempts"));
                    break;
                }
            }
        }
        assert_eq!(waits[..5], [500, 1000, 2000, 4000, 8000]);
        assert_eq!(waits[9..11], [256_000, 300_000]);
        assert_eq!(waits[10..], [300_000; 14]);
        assert_eq!(clock, Duration::from_millis(4_711_500), "about an hour and a quarter");
    }

    #[test]
    fn full_jitter_reaches_from_nothing_to_the_whole() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.wait(3, 0.0), Duration::ZERO);
        assert_eq!(policy.wait(3, 1.0), Duration::from_secs(4));
        assert_eq!(policy.wait(u32::MAX, 1.0), policy.cap);
    }

    #[test]
    fn the_time_runs_from_the_first_attempt_and_no_attempt_begins_after_it() {
        let policy = RetryPolicy { max_elapsed: Duration::from_mins(1), ..RetryPolicy::default() };
        assert_eq!(policy.next(tried(5, 44), 1.0), Next::Park(Duration::from_secs(16)));
        assert!(matches!(policy.next(tried(5, 45), 1.0), Next::Bury(reason) if reason.contains("60s")));
        assert!(matches!(policy.next(tried(5, 59), 0.0), Next::Park(_)));
    }

    #[test]
    fn a_wait_that_was_asked_for_is_kept() {
        let policy = RetryPolicy::default();
        let asked = |attempts, wait| policy.next(Tried { asked: Some(wait), ..tried(attempts, 0) }, 0.1);
        assert_eq!(asked(1, Duration::from_secs(10)), Next::InPlace(Duration::from_secs(10)));
        // Longer than a watermark should be held: the first failure parks.
        assert_eq!(asked(1, Duration::from_secs(11)), Next::Park(Duration::from_secs(11)));
        assert_eq!(asked(4, Duration::from_hours(2)), Next::Park(Duration::from_hours(2)));
        assert!(matches!(asked(4, Duration::from_hours(25)), Next::Bury(_)));
        assert!(matches!(asked(25, Duration::from_secs(1)), Next::Bury(_)));
    }

    #[test]
    fn a_broken_constraint_is_tried_less_often() {
        let policy = RetryPolicy::default();
        let broken =
            |attempts| policy.next(Tried { class: FailureClass::Constraint, ..tried(attempts, 0) }, 0.0);
        assert!(matches!(broken(4), Next::Park(_)));
        assert!(matches!(broken(5), Next::Bury(_)));
        // Not if all are tried even less often.
        let policy = RetryPolicy { max_attempts: 2, ..policy };
        let broken = Tried { class: FailureClass::Constraint, ..tried(2, 0) };
        assert!(matches!(policy.next(broken, 0.0), Next::Bury(_)));
    }

    #[test]
    fn impossible_policies_are_refused() {
        assert_eq!(RetryPolicy::default().problem(), None);
        let never = RetryPolicy { max_attempts: 0, ..RetryPolicy::default() };
        assert!(never.problem().is_some_and(|problem| problem.contains("zero attempts")));
        let at_once = RetryPolicy { base: Duration::ZERO, ..RetryPolicy::default() };
        assert!(at_once.problem().is_some_and(|problem| problem.contains("zero time")));
        let years = RetryPolicy { max_elapsed: Duration::MAX, ..RetryPolicy::default() };
        assert!(years.problem().is_some_and(|problem| problem.contains("year")));
    }
}
