//! Why consuming ended.

use std::time::Duration;

use inbox_core::{Offset, Partition, StartError, StoreError, Topic};
use rdkafka::error::KafkaError;

use crate::config::ConfigError;

/// Why [`consume`](crate::consume) did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A property of the configuration cannot work.
    #[error("kafka configuration: {0}")]
    Config(#[from] ConfigError),
    /// The inbox could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store could not be reached, before an inbox was made of it; or it has forgotten a
    /// subscription since ([`StoreError::Unregistered`]).
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An environment variable is missing.
    #[error("environment: {0}")]
    Environment(#[from] std::env::VarError),
    /// The client could not be made from the configuration.
    #[error("kafka client: {0}")]
    Client(#[source] KafkaError),
    /// No broker answered.
    #[error("no Kafka broker at {brokers} answered within {limit:?}: {source}")]
    Unreachable {
        /// The addresses that were tried.
        brokers: String,
        /// How long it was waited.
        limit: Duration,
        /// What the client said last.
        source: KafkaError,
    },
    /// A subscription names a topic that does not exist.
    #[error(
        "topic {topic} does not exist on the Kafka cluster: create it first, or mend the subscription's `topic`"
    )]
    UnknownTopic {
        /// The topic.
        topic: Topic,
    },
    /// The group works with an eager assignment strategy, under which a partition can have two
    /// owners' worth of work in flight.
    #[error(
        "the consumer group uses an eager assignment strategy: let every member use cooperative-sticky, or \
         group.protocol=consumer"
    )]
    EagerStrategy,
    /// The log does not reach to the watermark: the topic was recreated, cut, or retention overtook
    /// the group. Consuming on would lose or repeat effects.
    #[error(
        "topic {topic} partition {partition} holds the offsets {low} to {high}, but the watermark in the database is \
         {watermark}: the topic is another one, or records that were never handled are gone"
    )]
    OutsideLog {
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
        /// The first offset Kafka has.
        low: Offset,
        /// The offset after the last one Kafka has.
        high: Offset,
        /// Where the group must go on.
        watermark: Offset,
    },
    /// The database is older than what was committed to Kafka, and `Settings::on_restore` says stop.
    #[error(
        "topic {topic} partition {partition}: the database is older than what was committed to Kafka (flush number \
         {number}, committed {committed}): it was restored, or a replica was promoted that lagged; to consume again \
         what took effect since, set on_restore to ConsumeAgain"
    )]
    DatabaseWentBack {
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
        /// The flush number in the database.
        number: i64,
        /// The flush number in Kafka.
        committed: i64,
    },
    /// A part of a log cannot be read: it is damaged, compressed in a way that this build does not
    /// know (features `zstd`, `ssl`), or gone. Going on would skip records.
    #[error("topic {topic} partition {partition} cannot be read from offset {from} on: {source}")]
    Unreadable {
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
        /// The offset after the last record that was read.
        from: Offset,
        /// What the client says.
        source: KafkaError,
    },
    /// The client cannot go on.
    #[error("the Kafka client ended: {0}")]
    Fatal(String),
    /// A part of the inbox died of a bug. What was in flight is not finished and will be consumed
    /// again.
    #[error("the inbox failed: {0}")]
    Broken(String),
}
