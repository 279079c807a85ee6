//! What is checked about Kafka before the first record.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use inbox_core::Topic;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::Error;

/// How long a broker may take to answer at the start.
const LIMIT: Duration = Duration::from_secs(10);

/// Makes the client, asks the cluster for its id, and whether every topic exists. Blocks.
pub(crate) fn connect(
    config: &KafkaConfig,
    topics: &BTreeSet<Topic>,
) -> Result<(BaseConsumer<Context>, String), Error> {
    let client = config.to_client_config()?;
    let consumer: BaseConsumer<Context> =
        client.create_with_context(Context::default()).map_err(Error::Client)?;
    let unreachable = |source| Error::Unreachable { brokers: config.brokers().into(), limit: LIMIT, source };
    for topic in topics {
        let metadata = consumer.fetch_metadata(Some(topic.as_str()), LIMIT).map_err(unreachable)?;
        let exists = metadata.topics().iter().any(|found| {
            found.name() == topic.as_str() && found.error().is_none() && !found.partitions().is_empty()
        });
        if !exists {
            return Err(Error::UnknownTopic { topic: topic.clone() });
        }
    }
    let cluster = consumer.client().fetch_cluster_id(LIMIT).unwrap_or_default();
    Ok((consumer, cluster))
}

/// The offsets that Kafka has of a partition: the first, and the one after the last. Blocks.
pub(crate) fn log_range(
    consumer: &Arc<BaseConsumer<Context>>,
    topic: &Topic,
    partition: i32,
) -> Result<(i64, i64), RDKafkaErrorCode> {
    consumer
        .fetch_watermarks(topic.as_str(), partition, LIMIT)
        .map_err(|error| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))
}
