//! Accept log: a person says that a partition's log is another one, and where it begins (P10).

use crate::identity::{Offset, Partition, Topic};

/// Partitions whose log is not the one that was consumed before, and shall be consumed all the same.
///
/// ```no_run
/// # async fn accept(store: &inbox_core::PostgresStore) -> Result<(), inbox_core::StoreError> {
/// use inbox_core::store::{AcceptLog, LogStart};
/// use inbox_core::Topic;
///
/// let accepted = store
///     .accept_log(&AcceptLog {
///         group: "payments".into(),
///         topic: Topic::new("orders.placed"),
///         partition: None,
///         incarnation: 1,
///         from: LogStart::Earliest,
///     })
///     .await?;
/// println!("{} partitions begin anew", accepted.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptLog {
    /// The consumer group.
    pub group: String,
    /// The topic.
    pub topic: Topic,
    /// One partition, or every one that the group has had.
    pub partition: Option<Partition>,
    /// The incarnation that the stop names. One that has another by now is left alone, so that a call
    /// that is repeated, or made by two people, counts once.
    pub incarnation: i32,
    /// Where every subscription goes on.
    pub from: LogStart,
}

/// Where subscriptions begin in a log that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// At the first record that Kafka has. What has a receipt under its sender's id stays a duplicate;
    /// ids made of offsets are new ones.
    Earliest,
    /// At this offset. Records below it are not handled.
    At(Offset),
}
