//! Why consuming ended.

use std::time::Duration;

use inbox_core::store::Departed;
use inbox_core::{Offset, Partition, StartError, StoreError, Topic};
use rdkafka::error::KafkaError;

use crate::config::{ConfigError, Secrets};
use crate::refusal::Refusal;

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
    /// The store could not be reached, before an inbox was made of it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An environment variable is missing.
    #[error("environment: {0}")]
    Environment(#[from] std::env::VarError),
    /// The client could not be made from the configuration.
    #[error("kafka client: {0}")]
    Client(#[source] KafkaError),
    /// No broker answered.
    #[error("no Kafka broker at {brokers} answered within {limit:?}: {reason}")]
    Unreachable {
        /// The addresses that were tried.
        brokers: String,
        /// How long it was waited.
        limit: Duration,
        /// What the client said last about a connection.
        reason: String,
        /// What it answered.
        source: Box<KafkaError>,
    },
    /// No broker answered, and a TLS connection could not be agreed on.
    #[error("no TLS connection to Kafka at {brokers}: {reason}: {}", Refusal::Tls.what_to_check())]
    Tls {
        /// The addresses that were tried.
        brokers: String,
        /// What the client said last.
        reason: String,
    },
    /// A broker does not accept who we say we are.
    #[error(
        "Kafka at {brokers} does not let us in (mechanism {mechanism}): {reason}: {}",
        Refusal::Authentication.what_to_check()
    )]
    Authentication {
        /// The addresses that were tried.
        brokers: String,
        /// The SASL mechanism.
        mechanism: String,
        /// What the client said last.
        reason: String,
    },
    /// What was given to [`KafkaConfig::oauth`](crate::KafkaConfig::oauth) got no token, also when it was
    /// tried again.
    #[error("no OAuth token for Kafka within {limit:?}: {reason}: mend what `KafkaConfig::oauth` was given")]
    Token {
        /// What the last call said.
        reason: String,
        /// How long it was tried.
        limit: Duration,
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
    /// A subscription was moved to another consumer group, or removed, while this service ran its handler.
    /// Nothing of it was handled here since.
    #[error(transparent)]
    Departed(#[from] Departed),
    /// Records are compressed in a way that this build does not know. Going on would skip them.
    #[error(
        "topic {topic} partition {partition} has records from offset {from} on that are compressed in a way this build does \
         not know: build with the feature `zstd`: {source}"
    )]
    UnknownCompression {
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
        /// The offset after the last record that was read.
        from: Offset,
        /// What the client says.
        source: KafkaError,
    },
    /// Another process joined the group under this process's static member id, and has its partitions
    /// now.
    #[error(
        "another process joined the group with the static member id of this one, group.instance.id = {id}: give each \
         process an id of its own"
    )]
    OtherInstance {
        /// The static member id.
        id: String,
    },
    /// The client cannot go on.
    #[error("the Kafka client ended: {0}")]
    Fatal(String),
    /// A part of the inbox died of a bug. What was in flight is not finished and will be consumed
    /// again.
    #[error("the inbox failed: {0}")]
    Broken(String),
}

impl Error {
    /// A client that could not be made. librdkafka quotes values, and rdkafka all of them.
    pub(crate) fn client(error: KafkaError, secrets: &Secrets) -> Self {
        match error {
            KafkaError::ClientConfig(_, problem, property, value) => {
                let problem = secrets.hidden_in(&format!("{problem}: it is {value:?}")).into_owned();
                Self::Config(ConfigError { property, problem })
            }
            KafkaError::ClientCreation(problem) => {
                Self::Client(KafkaError::ClientCreation(secrets.hidden_in(&problem).into_owned()))
            }
            other => Self::Client(other),
        }
    }
}
