//! Where subscriptions begin that the database does not know yet, as offsets (P10).

use std::collections::{BTreeMap, BTreeSet};

use inbox_core::store::First;
use inbox_core::{Offset, Partition, Start, Topic, Topics};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};

use crate::context::Context;
use crate::preflight::LIMIT;

type Offsets = BTreeMap<(Topic, Partition), Offset>;

/// One for each of these subscriptions: its topics, and where it is to begin. Blocks.
pub(crate) fn firsts(
    consumer: &BaseConsumer<Context>,
    partitions: &BTreeSet<(Topic, Partition)>,
    starts: &[(Topics, Option<Start>)],
) -> KafkaResult<Vec<First>> {
    let committed = committed(consumer, partitions)?;
    starts
        .iter()
        .map(|(topics, start)| {
            let own = partitions.iter().filter(|(topic, _)| topics.contains(topic));
            let partitions: BTreeSet<_> = own.cloned().collect();
            Ok(match start {
                None if committed.is_empty() => First::Earliest,
                None => First::Unsaid,
                Some(Start::Earliest) => First::Earliest,
                Some(Start::Committed) => {
                    begins(committed.clone().into_iter().filter(|(place, _)| partitions.contains(place)))
                }
                Some(Start::Latest) => begins(ends(consumer, &partitions)?),
                Some(Start::Time(time)) => {
                    let mut offsets = ends(consumer, &partitions)?;
                    offsets.extend(at(consumer, &partitions, time.0)?);
                    begins(offsets)
                }
            })
        })
        .collect()
}

fn begins(offsets: impl IntoIterator<Item = ((Topic, Partition), Offset)>) -> First {
    First::At(offsets.into_iter().map(|((topic, partition), offset)| (topic, partition, offset)).collect())
}

/// What the group has committed.
fn committed(
    consumer: &BaseConsumer<Context>,
    partitions: &BTreeSet<(Topic, Partition)>,
) -> KafkaResult<Offsets> {
    offsets_of(&consumer.committed_offsets(list(partitions, KafkaOffset::Invalid)?, LIMIT)?)
}

/// The offset behind the last record.
fn ends(consumer: &BaseConsumer<Context>, partitions: &BTreeSet<(Topic, Partition)>) -> KafkaResult<Offsets> {
    partitions
        .iter()
        .map(|(topic, partition)| {
            let (_, high) = consumer.fetch_watermarks(topic.as_str(), partition.0, LIMIT)?;
            Ok(((topic.clone(), *partition), Offset(high)))
        })
        .collect()
}

/// The first record at or after this time; nothing where there is none.
fn at(
    consumer: &BaseConsumer<Context>,
    partitions: &BTreeSet<(Topic, Partition)>,
    millis: i64,
) -> KafkaResult<Offsets> {
    offsets_of(&consumer.offsets_for_times(list(partitions, KafkaOffset::Offset(millis))?, LIMIT)?)
}

fn list(partitions: &BTreeSet<(Topic, Partition)>, offset: KafkaOffset) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (topic, partition) in partitions {
        list.add_partition_offset(topic.as_str(), partition.0, offset)?;
    }
    Ok(list)
}

fn offsets_of(list: &TopicPartitionList) -> KafkaResult<Offsets> {
    let mut offsets = Offsets::new();
    for element in list.elements() {
        element.error()?;
        if let KafkaOffset::Offset(offset) = element.offset() {
            offsets.insert((Topic::new(element.topic()), Partition(element.partition())), Offset(offset));
        }
    }
    Ok(offsets)
}
