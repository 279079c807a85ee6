//! What is checked about Kafka before the first record.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use inbox_core::store::{First, Log};
use inbox_core::{Start, Topic, Topics};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};

use crate::client;
use crate::config::KafkaConfig;
use crate::context::Context;
use crate::describe::topic_ids;
use crate::error::Error;
use crate::firsts::firsts;
use crate::served::while_served;
use crate::topics;

/// How long a broker may take to answer at the start.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// A client, and what it was told of the cluster.
pub(crate) struct Connected {
    pub(crate) consumer: BaseConsumer<Context>,
    /// The topics that exist.
    pub(crate) topics: BTreeSet<Topic>,
    /// Where each subscription begins if it is new.
    pub(crate) firsts: Vec<First>,
}

/// Makes the client, and asks which topics exist and where subscriptions begin. Blocks.
pub(crate) fn connect(
    config: &KafkaConfig,
    wanted: &Topics,
    starts: &[(Topics, Option<Start>)],
) -> Result<Connected, Error> {
    let consumer = client::make(config)?;
    let (topics, firsts) = while_served(&consumer, || ask(&consumer, config, wanted, starts))?;
    Ok(Connected { consumer, topics, firsts })
}

fn ask(
    consumer: &BaseConsumer<Context>,
    config: &KafkaConfig,
    wanted: &Topics,
    starts: &[(Topics, Option<Start>)],
) -> Result<(BTreeSet<Topic>, Vec<First>), Error> {
    let unreachable = |source| consumer.context().troubles().explain(config, LIMIT, source);
    is_reached(consumer, wanted).map_err(unreachable)?;
    let found = topics::find(consumer, wanted).map_err(unreachable)?;
    for topic in wanted.names() {
        if found.contains_key(topic) {
            continue;
        }
        if !config.waits_for_topics() {
            return Err(Error::UnknownTopic { topic: topic.clone() });
        }
        tracing::warn!(%topic, "the topic does not exist yet: it is consumed when it does");
    }
    let partitions: BTreeSet<_> = found
        .iter()
        .flat_map(|(topic, partitions)| partitions.iter().map(|partition| (topic.clone(), *partition)))
        .collect();
    let firsts = patiently(|| firsts(consumer, &partitions, starts)).map_err(unreachable)?;
    Ok((found.into_keys().collect(), firsts))
}

/// Waits for a broker's first answer within the limit: who is refused hears it soon, but not before other
/// brokers had the time to answer.
fn is_reached(consumer: &BaseConsumer<Context>, wanted: &Topics) -> KafkaResult<()> {
    const WAITS: [u64; 3] = [500, 1000, 2000];
    let since = Instant::now();
    let asked = wanted.names().first().map(Topic::as_str);
    for wait in WAITS.map(Duration::from_millis) {
        if consumer.fetch_metadata(asked, wait).is_ok() {
            return Ok(());
        }
    }
    let refused = consumer.context().troubles().are_refusals();
    let rest = if refused { Duration::ZERO } else { LIMIT.saturating_sub(since.elapsed()) };
    consumer.fetch_metadata(asked, rest).map(drop)
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

/// Which log a topic has. Blocks.
pub(crate) fn which_log(consumer: &BaseConsumer<Context>, topic: &Topic, _: i32) -> KafkaResult<Log> {
    // The client keeps it: this waits only for the first answer of a broker.
    let cluster = consumer.client().fetch_cluster_id(LIMIT).unwrap_or_default();
    let topic_id = topic_ids(consumer, &[topic], LIMIT)?.remove(topic);
    Ok(Log { cluster, topic_id })
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
