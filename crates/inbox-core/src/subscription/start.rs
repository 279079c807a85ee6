//! Where a subscription begins.

use crate::record::Timestamp;

/// Where a subscription begins that the database does not know yet. Looked at once, when it is
/// recorded; from then on its watermarks decide.
///
/// Partitions that are added to a topic later begin at their first record, whatever was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first record that Kafka has. What a new subscription does if nothing is said.
    Earliest,
    /// Behind the last record: what is there already is never handled.
    Latest,
    /// Where the consumer group is, as its committed offsets say; partitions without one at the first
    /// record. For a group that moves to the inbox: what it has handled before is not handled again.
    Committed,
    /// At the first record whose timestamp is at or after this time.
    Time(Timestamp),
}
