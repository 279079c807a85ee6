//! Which topics there are: looked for at the start, and again and again, since topics come and go and
//! are made anew under their old names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use inbox_core::{Partition, Topic, Topics};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::metadata::MetadataTopic;
use tokio::task::spawn_blocking;

use crate::context::Context;
use crate::describe::topic_ids;
use crate::poll::{Wake, Wakes};
use crate::preflight::LIMIT;

/// Those of the wanted topics that exist, with their partitions. Blocks.
pub(crate) fn find(
    consumer: &BaseConsumer<Context>,
    wanted: &Topics,
) -> KafkaResult<BTreeMap<Topic, BTreeSet<Partition>>> {
    let mut found = BTreeMap::new();
    let mut add = |topic: &MetadataTopic| {
        let name = Topic::new(topic.name());
        if topic.error().is_none() && !topic.partitions().is_empty() && wanted.contains(&name) {
            found.insert(name, topic.partitions().iter().map(|each| Partition(each.id())).collect());
        }
    };
    if wanted.has_patterns() {
        consumer.fetch_metadata(None, LIMIT)?.topics().iter().for_each(&mut add);
    } else {
        for topic in wanted.names() {
            consumer.fetch_metadata(Some(topic.as_str()), LIMIT)?.topics().iter().for_each(&mut add);
        }
    }
    Ok(found)
}

/// Every topic that exists, with its id where the broker tells it.
pub(crate) type Found = BTreeMap<Topic, Option<String>>;

fn find_with_ids(consumer: &BaseConsumer<Context>, wanted: &Topics) -> KafkaResult<Found> {
    let names: Vec<Topic> = find(consumer, wanted)?.into_keys().collect();
    let mut ids = if names.is_empty() {
        BTreeMap::new()
    } else {
        topic_ids(consumer, &names.iter().collect::<Vec<_>>(), LIMIT)?
    };
    Ok(names.into_iter().map(|topic| (topic.clone(), ids.remove(&topic))).collect())
}

/// Tells the poll thread what there is, each interval, as long as the client lives.
pub(crate) async fn watch(
    consumer: Weak<BaseConsumer<Context>>,
    wanted: Arc<Topics>,
    interval: Duration,
    wakes: Wakes,
) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(consumer) = consumer.upgrade() else { return };
        let wanted = Arc::clone(&wanted);
        match spawn_blocking(move || find_with_ids(&consumer, &wanted)).await {
            Ok(Ok(found)) => wakes.send(Wake::Topics(found)),
            Ok(Err(error)) => tracing::debug!(%error, "Kafka does not tell which topics there are"),
            Err(_) => return,
        }
    }
}
