//! The payments on their way to the topic.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};

use crate::Result;
use crate::broker::Broker;
use crate::workload::{Outgoing, PARTITIONS, Workload};

/// The header that names a payment.
const ID_HEADER: &str = "event-id";

const PATIENCE: Duration = Duration::from_secs(30);

/// Produces everything, in order. Blocks.
pub(crate) fn produce(broker: &Broker, workload: &Workload) -> Result<()> {
    let producer: BaseProducer<Delivered> = ClientConfig::new()
        .set("bootstrap.servers", &broker.addresses)
        .set("enable.idempotence", "true")
        .set("linger.ms", "20")
        .create_with_context(Delivered::default())?;
    for record in workload.records() {
        send(&producer, &broker.topic, &record?)?;
    }
    producer.flush(PATIENCE)?;
    let (delivered, planned) = (producer.context().0.load(Ordering::Relaxed), workload.count());
    if delivered != planned {
        return Err(format!("only {delivered} of {planned} records reached the topic").into());
    }
    check(broker, workload)
}

fn send(producer: &BaseProducer<Delivered>, topic: &str, outgoing: &Outgoing) -> Result<()> {
    let mut record = BaseRecord::to(topic)
        .partition(outgoing.partition)
        .key(&outgoing.key)
        .payload(&outgoing.value)
        .headers(OwnedHeaders::new().insert(Header { key: ID_HEADER, value: Some(&outgoing.id) }));
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), same)) => {
                producer.poll(Duration::from_millis(10));
                record = same;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

/// That the broker has all of it: what it lacks must not be counted as lost by the inbox.
fn check(broker: &Broker, workload: &Workload) -> Result<()> {
    let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &broker.addresses).create()?;
    let mut kept = 0;
    for partition in 0..PARTITIONS {
        let (first, end) = consumer.fetch_watermarks(&broker.topic, partition, PATIENCE)?;
        if first != 0 {
            return Err(format!(
                "the broker has forgotten the first {first} records of partition {partition}"
            )
            .into());
        }
        kept += end;
    }
    if kept != i64::try_from(workload.count())? {
        return Err(format!("the broker has {kept} records, not {}", workload.count()).into());
    }
    Ok(())
}

/// Counts what the broker has acknowledged.
#[derive(Default)]
struct Delivered(AtomicUsize);

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
