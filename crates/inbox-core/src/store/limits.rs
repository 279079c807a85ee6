//! How long a transaction of the inbox may take in the database (P5).

use std::time::Duration;

/// Limits that hold, set locally, in every transaction of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// One statement.
    pub statement: Duration,
    /// One wait for a lock.
    pub lock: Duration,
    /// Between two statements: what a stopped process can cost a new owner.
    pub idle: Duration,
}

impl TransactionLimits {
    /// For transactions of the inbox alone: five seconds each.
    pub const OWN: Self = Self {
        statement: Duration::from_secs(5),
        lock: Duration::from_secs(5),
        idle: Duration::from_secs(5),
    };

    /// How long one exchange with the database may take before it counts as unanswered: as long as
    /// the server's own limits allow, and a little.
    pub(crate) fn answer(&self) -> Duration {
        self.statement + self.lock + Duration::from_secs(5)
    }
}
