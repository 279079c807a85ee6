//! Every limit of an inbox, with its default.

use std::time::Duration;

use crate::retry::RetryPolicy;
use crate::store::TransactionLimits;

/// Limits of an inbox (P5). Change the ones you need:
///
/// ```
/// use inbox_core::Settings;
///
/// let settings = Settings { lanes: 4, max_batch: 100, ..Settings::default() };
/// ```
///
/// They are checked when the inbox starts; an error names the setting and says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Workers, each with a database connection of its own. Default 8. Two more connections serve
    /// offsets and ownership, and a probe opens one for a moment.
    pub lanes: usize,
    /// Messages in one transaction, at most. Default 2000. Batches are only that large when a
    /// backlog waits; at low load a batch is one message.
    pub max_batch: usize,
    /// Bytes of records in one transaction, at most; a single larger record still runs. Default
    /// 4 MiB.
    pub max_batch_bytes: usize,
    /// How long a batch should take, at most. Default 500 ms. Batches of slow handlers become
    /// smaller until they fit, down to one message.
    pub batch_time: Duration,
    /// How long a lane waits for a batch to fill while the transport has more to deliver at once.
    /// Default 20 ms; zero never waits. At low load nothing waits: there is no more to come.
    pub linger: Duration,
    /// How long one call of a handler may take. Default 30 s. It is then cut off and fails alone.
    /// Also the longest a statement may take, and, with 5 s more, the longest a stopped process
    /// can hold a partition's transaction open.
    pub time_limit: Duration,
    /// How long a statement may wait for a lock. Default 10 s.
    pub lock_timeout: Duration,
    /// Records read but not yet below the watermark, over all partitions, at most. Default 40,000.
    /// It bounds memory and what a crash repeats.
    pub max_in_flight: usize,
    /// Bytes of records read but not yet finished, over all partitions, at most. Default 32 MiB.
    /// Each partition may always hold one record.
    pub max_in_flight_bytes: usize,
    /// Bytes of key, value and headers of one record, at most. Default 8 MiB. A larger one becomes
    /// a dead letter of class `oversized`.
    pub max_record_bytes: usize,
    /// How far in the future a record's timestamp may lie. Default 24 h. One beyond becomes a dead
    /// letter of class `future_dated`.
    pub max_clock_skew: Duration,
    /// How often watermarks are written and offsets committed. Default 1 s.
    pub flush_interval: Duration,
    /// How long a revoke or shutdown waits for transactions that run. Default 20 s. What has not
    /// ended then is not lost: the next owner runs it, or finds its receipt.
    pub drain_limit: Duration,
    /// How failing messages are tried again, where their subscription says nothing else.
    pub retry: RetryPolicy,
    /// Business keys of one subscription that have parked messages, in one process, at most. Default 1000.
    /// Reached, the subscription stops taking messages, and with it its partitions stop when their budget
    /// is used up: whatever its handler depends on seems to be down. Parked messages that are due go on, one
    /// at a time, and below half of the limit everything does.
    pub max_open_keys: usize,
    /// What is done when the database turns out to be older than what was committed to Kafka: it was
    /// restored from a backup, or a replica was promoted that lagged. Default: consume again.
    pub on_restore: OnRestore,
    /// How often a database that does not answer is probed, at most. Default 5 s; the first probes
    /// come sooner.
    pub probe_cap: Duration,
}

/// See [`Settings::on_restore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRestore {
    /// Go on from the watermark of the restored database, and warn. What took effect after the
    /// backup is gone with its receipts, and takes effect again.
    ConsumeAgain,
    /// End with an error, for handlers that also act outside the database.
    Stop,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lanes: 8,
            max_batch: 2000,
            max_batch_bytes: 4 << 20,
            batch_time: Duration::from_millis(500),
            linger: Duration::from_millis(20),
            time_limit: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
            max_in_flight: 40_000,
            max_in_flight_bytes: 32 << 20,
            max_record_bytes: 8 << 20,
            max_clock_skew: Duration::from_hours(24),
            flush_interval: Duration::from_secs(1),
            drain_limit: Duration::from_secs(20),
            retry: RetryPolicy::default(),
            max_open_keys: 1000,
            on_restore: OnRestore::ConsumeAgain,
            probe_cap: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// What a handler may do between two of its statements beyond its time limit.
    const IDLE_GRACE: Duration = Duration::from_secs(5);

    pub(crate) fn problem(&self) -> Option<String> {
        let counts = [
            ("lanes", self.lanes),
            ("max_batch", self.max_batch),
            ("max_batch_bytes", self.max_batch_bytes),
            ("max_in_flight", self.max_in_flight),
            ("max_in_flight_bytes", self.max_in_flight_bytes),
            ("max_record_bytes", self.max_record_bytes),
            ("max_open_keys", self.max_open_keys),
        ];
        let durations = [
            ("batch_time", self.batch_time),
            ("time_limit", self.time_limit),
            ("lock_timeout", self.lock_timeout),
            ("flush_interval", self.flush_interval),
            ("drain_limit", self.drain_limit),
            ("probe_cap", self.probe_cap),
        ];
        let zero_count = counts.iter().find(|(_, value)| *value == 0).map(|(name, _)| *name);
        let zero_duration = durations.iter().find(|(_, value)| value.is_zero()).map(|(name, _)| *name);
        if let Some(name) = zero_count.or(zero_duration) {
            return Some(format!(
                "{name} is zero: nothing could be done; leave it at its default or raise it"
            ));
        }
        if let Some(problem) = self.retry.problem() {
            return Some(format!("retry: {problem}"));
        }
        let linger = ("linger", self.linger);
        let too_long =
            durations.iter().chain([&linger]).find(|(_, value)| *value > Duration::from_hours(24))?;
        Some(format!(
            "{} is longer than 24 h: a unit was mistaken, or something would hang for days",
            too_long.0
        ))
    }

    /// The limits of a transaction whose handler may take `time_limit`.
    pub(crate) fn limits(&self, time_limit: Duration) -> TransactionLimits {
        TransactionLimits {
            statement: time_limit,
            lock: self.lock_timeout,
            idle: time_limit + Self::IDLE_GRACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_impossible_setting_is_named() {
        assert_eq!(Settings::default().problem(), None);
        let zero_lanes = Settings { lanes: 0, ..Settings::default() };
        assert!(zero_lanes.problem().is_some_and(|problem| problem.starts_with("lanes is zero")));
        let zero_time = Settings { drain_limit: Duration::ZERO, ..Settings::default() };
        assert!(zero_time.problem().is_some_and(|problem| problem.starts_with("drain_limit is zero")));
        let years = Settings { time_limit: Duration::from_secs(u64::MAX), ..Settings::default() };
        assert!(years.problem().is_some_and(|problem| problem.starts_with("time_limit is longer")));
    }
}
