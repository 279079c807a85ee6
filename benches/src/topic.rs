//! The topic of one run: made, filled, checked, deleted.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};

use crate::Result;
use crate::env::Env;
use crate::workload::{PARTITIONS, Planned};

/// The header that carries the id, for consumers that do not look for it in the value.
pub(crate) const ID_HEADER: &str = "event-id";

const PATIENCE: Duration = Duration::from_mins(1);

/// Makes the topic and produces the plan: each record to its planned partition and offset.
pub(crate) async fn fill(env: &Env) -> Result<()> {
    let partitions = i32::try_from(PARTITIONS)?;
    let topic = NewTopic::new(&env.topic, partitions, TopicReplication::Fixed(1));
    let made = admin(env)?.create_topics([&topic], &options()).await?;
    for answer in made {
        answer.map_err(|(topic, code)| format!("could not create the topic {topic}: {code}"))?;
    }
    let env = env.clone();
    tokio::task::spawn_blocking(move || {
        produce(&env)?;
        check(&env)
    })
    .await?
}

/// Deletes the topic and the groups that read it.
pub(crate) async fn delete(env: &Env, groups: &[String]) -> Result<()> {
    let admin = admin(env)?;
    let groups: Vec<_> = groups.iter().map(String::as_str).collect();
    admin.delete_groups(&groups, &options()).await?;
    admin.delete_topics(&[&env.topic], &options()).await?;
    Ok(())
}

fn produce(env: &Env) -> Result<()> {
    let producer: BaseProducer<Delivered> = ClientConfig::new()
        .set("bootstrap.servers", &env.brokers)
        .set("acks", "all")
        // Each record once and in order, so that the n-th of a partition has offset n.
        .set("enable.idempotence", "true")
        .set("linger.ms", "20")
        .create_with_context(Delivered::default())?;
    for planned in env.workload.plan() {
        send(&producer, &env.topic, &planned)?;
    }
    producer.flush(PATIENCE)?;
    let delivered = producer.context().0.load(Ordering::Relaxed);
    if delivered != env.workload.records {
        return Err(format!("only {delivered} records were delivered to the topic").into());
    }
    Ok(())
}

fn send(producer: &BaseProducer<Delivered>, topic: &str, planned: &Planned) -> Result<()> {
    let key = planned.transfer.account_id.to_string();
    let value = planned.transfer.value()?;
    let id = planned.transfer.id.to_string();
    let mut record = BaseRecord::to(topic)
        .partition(planned.partition.cast_signed())
        .key(&key)
        .payload(&value)
        .headers(OwnedHeaders::new().insert(Header { key: ID_HEADER, value: Some(&id) }));
    loop {
        match producer.send(record) {
            Ok(()) => break,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), same)) => {
                producer.poll(Duration::from_millis(50));
                record = same;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
    Ok(())
}

/// That the partitions hold what the plan says, so that sums over prefixes mean something.
fn check(env: &Env) -> Result<()> {
    let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &env.brokers).create()?;
    for (partition, planned) in (0..).zip(env.workload.whole()) {
        let (start, end) = consumer.fetch_watermarks(&env.topic, partition, PATIENCE)?;
        if (start, end) != (0, i64::from(planned)) {
            return Err(
                format!("partition {partition} holds offsets {start} to {end}, not 0 to {planned}").into()
            );
        }
    }
    Ok(())
}

fn admin(env: &Env) -> Result<AdminClient<DefaultClientContext>> {
    Ok(ClientConfig::new().set("bootstrap.servers", &env.brokers).create()?)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
}

/// Counts what the broker has acknowledged.
#[derive(Default)]
struct Delivered(AtomicU32);

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
