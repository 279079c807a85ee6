//! Times are the database's. What goes in and out is how far from now they are.

use std::time::Duration;

/// As far from now as a time of ours lies: a hundred years, which every database can add to its clock and
/// take from it.
const FAR: Duration = Duration::from_hours(100 * 365 * 24);

/// Whole microseconds, not less than asked for.
#[cfg(feature = "postgres")]
pub(crate) fn micros(distance: Duration) -> i64 {
    i64::try_from(distance.min(FAR).as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

/// Whole milliseconds, not less than asked for.
#[cfg(feature = "sqlite")]
pub(crate) fn millis(distance: Duration) -> i64 {
    i64::try_from(distance.min(FAR).as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// What the database answered; nothing where its clock went back.
#[cfg(feature = "postgres")]
pub(crate) fn from_micros(distance: i64) -> Duration {
    Duration::from_micros(distance.max(0).unsigned_abs())
}

/// What the database answered; nothing where its clock went back.
#[cfg(feature = "sqlite")]
pub(crate) fn from_millis(distance: i64) -> Duration {
    Duration::from_millis(distance.max(0).unsigned_abs())
}

#[cfg(all(test, feature = "postgres", feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_as_a_whole_and_nothing_is_too_far() {
        assert_eq!((micros(Duration::ZERO), millis(Duration::ZERO)), (0, 0));
        assert_eq!((micros(Duration::from_nanos(1_001)), millis(Duration::from_micros(1_001))), (2, 2));
        assert_eq!(micros(Duration::MAX), 1_000 * millis(Duration::MAX));
        assert_eq!(from_millis(millis(Duration::MAX)), FAR);
        assert_eq!((from_micros(-1), from_millis(i64::MIN)), (Duration::ZERO, Duration::ZERO));
    }
}
