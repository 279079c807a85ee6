//! What is checked about Kafka before the first record.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use inbox_core::store::First;
use inbox_core::{Partition, Start, Topic};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::Error;
use crate::firsts::firsts;

/// How long a broker may take to answer at the start.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// A client, and what it was told of the cluster.
pub(crate) struct Connected {
    pub(crate) consumer: BaseConsumer<Context>,
    pub(crate) cluster: String,
    /// Where each subscription begins if it is new.
    pub(crate) firsts: Vec<First>,
}

/// Makes the client, asks the cluster for its id, whether every topic exists, and where subscriptions
/// begin. Blocks.
pub(crate) fn connect(
    config: &KafkaConfig,
    topics: &BTreeSet<Topic>,
    starts: &[(Vec<Topic>, Option<Start>)],
) -> Result<Connected, Error> {
    let client = config.to_client_config()?;
    let consumer: BaseConsumer<Context> =
        client.create_with_context(Context::default()).map_err(Error::Client)?;
    let unreachable = |source| Error::Unreachable { brokers: config.brokers().into(), limit: LIMIT, source };
    let mut partitions = BTreeSet::new();
    for topic in topics {
        let metadata = consumer.fetch_metadata(Some(topic.as_str()), LIMIT).map_err(unreachable)?;
        let found = metadata.topics().iter().find(|found| {
            found.name() == topic.as_str() && found.error().is_none() && !found.partitions().is_empty()
        });
        let found = found.ok_or_else(|| Error::UnknownTopic { topic: topic.clone() })?;
        partitions.extend(found.partitions().iter().map(|each| (topic.clone(), Partition(each.id()))));
    }
    let cluster = consumer.client().fetch_cluster_id(LIMIT).unwrap_or_default();
    let firsts = patiently(|| firsts(&consumer, &partitions, starts)).map_err(unreachable)?;
    Ok(Connected { consumer, cluster, firsts })
}

/// A coordinator that is only just chosen, or still loads, refuses at once what it answers a moment later.
fn patiently<T>(mut ask: impl FnMut() -> KafkaResult<T>) -> KafkaResult<T> {
    let since = Instant::now();
    loop {
        match ask() {
            Err(error) if since.elapsed() < LIMIT => {
                tracing::debug!(%error, "Kafka does not tell yet where the group is");
                std::thread::sleep(Duration::from_millis(100));
            }
            answer => return answer,
        }
    }
}

/// The flush number beside the offset that the group has committed; `None` where nothing is committed,
/// or by somebody else. Blocks.
pub(crate) fn committed_number(
    consumer: &BaseConsumer<Context>,
    topic: &Topic,
    partition: i32,
) -> KafkaResult<Option<i64>> {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic.as_str(), partition);
    let committed = consumer.committed_offsets(list, LIMIT)?;
    let Some(element) = committed.find_partition(topic.as_str(), partition) else { return Ok(None) };
    element.error()?;
    let is_there = matches!(element.offset(), KafkaOffset::Offset(_));
    Ok(element.metadata().parse().ok().filter(|_| is_there))
}

/// The offsets that Kafka has of a partition: the first, and the one after the last. Blocks.
pub(crate) fn log_range(
    consumer: &BaseConsumer<Context>,
    topic: &Topic,
    partition: i32,
) -> Result<(i64, i64), RDKafkaErrorCode> {
    consumer
        .fetch_watermarks(topic.as_str(), partition, LIMIT)
        .map_err(|error| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))
}
