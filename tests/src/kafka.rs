//! Topics, records and group offsets on the broker of the tests.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message as _, Offset, TopicPartitionList};
use uuid::Uuid;

use crate::wait::{self, PATIENCE};

/// The header that carries the message id.
pub const ID_HEADER: &str = "event-id";

/// The address of the brokers.
#[must_use]
pub fn brokers() -> String {
    std::env::var("INBOX_TEST_BROKERS").unwrap_or_else(|_| {
        panic!(
            "INBOX_TEST_BROKERS is not set: run the tests with tests/run, or start the services with \
             eval \"$(tests/services start)\""
        )
    })
}

/// A topic of its own for one test; deleted with everything in it.
#[derive(Debug)]
pub struct FreshTopic {
    brokers: String,
    name: String,
    partitions: i32,
}

impl FreshTopic {
    /// Makes an empty topic.
    pub async fn create(partitions: i32) -> Self {
        Self::create_with(partitions, &[]).await
    }

    /// Makes an empty topic with these settings.
    pub async fn create_with(partitions: i32, settings: &[(&str, &str)]) -> Self {
        Self::create_at(&brokers(), partitions, settings).await
    }

    /// Makes an empty topic on another broker.
    pub async fn create_at(brokers: &str, partitions: i32, settings: &[(&str, &str)]) -> Self {
        Self::create_named(brokers, &Self::a_name(), partitions, settings).await
    }

    /// A name that no topic has.
    #[must_use]
    pub fn a_name() -> String {
        format!("inbox-test-{}", Uuid::new_v4().simple())
    }

    /// Makes an empty topic of this name, which it must not have yet.
    pub async fn create_named(brokers: &str, name: &str, partitions: i32, settings: &[(&str, &str)]) -> Self {
        let name = name.to_owned();
        let topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
        let topic = settings.iter().fold(topic, |topic, (setting, value)| topic.set(setting, value));
        let made = admin(brokers).create_topics([&topic], &options()).await.expect("the broker answers");
        for answer in made {
            answer.expect("the topic is made");
        }
        let fresh = Self { brokers: brokers.to_owned(), name, partitions };
        fresh.has_leaders().await;
        fresh
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of one of its brokers.
    #[must_use]
    pub fn broker(&self) -> &str {
        self.brokers.split(',').next().unwrap_or_default()
    }

    /// How many partitions it has.
    #[must_use]
    pub fn partitions(&self) -> i32 {
        self.partitions
    }

    /// The offset after the last record of each partition.
    #[must_use]
    pub fn ends(&self) -> Vec<i64> {
        ends(&client(&self.brokers, None), self)
    }

    /// Deletes the records of a partition below an offset, as retention does.
    pub async fn delete_below(&self, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, Offset::Offset(offset)).expect("an offset");
        admin(&self.brokers).delete_records(&list, &options()).await.expect("the records are deleted");
    }

    /// The offset of the first record that the partition still has from this offset on. Blocks.
    #[must_use]
    pub fn first_from(&self, partition: i32, offset: i64) -> i64 {
        let client = client(&self.brokers, Some("inbox-test-reader"));
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, Offset::Offset(offset)).expect("an offset");
        client.assign(&list).expect("it can be read");
        client.poll(PATIENCE).expect("a record").expect("it can be read").offset()
    }

    /// Gives it more partitions.
    pub async fn grow(&mut self, partitions: i32) {
        let more = NewPartitions::new(&self.name, usize::try_from(partitions).expect("not negative"));
        let grown =
            admin(&self.brokers).create_partitions([&more], &options()).await.expect("the broker answers");
        for answer in grown {
            answer.expect("it grows");
        }
        self.partitions = partitions;
        self.has_leaders().await;
    }

    /// Deletes it and makes another one under its name.
    pub async fn recreate(&self) {
        let deleted = admin(&self.brokers).delete_topics(&[&self.name], &options()).await;
        deleted
            .expect("the broker answers")
            .into_iter()
            .for_each(|answer| drop(answer.expect("it is deleted")));
        let topic = NewTopic::new(&self.name, self.partitions, TopicReplication::Fixed(1));
        wait::until("the deletion", async || {
            let made =
                admin(&self.brokers).create_topics([&topic], &options()).await.expect("the broker answers");
            made.into_iter().all(|answer| answer.is_ok())
        })
        .await;
        self.has_leaders().await;
    }

    /// The broker answers before it can lead each partition.
    async fn has_leaders(&self) {
        let client = client(&self.brokers, None);
        wait::until("a leader of each partition", async || {
            (0..self.partitions)
                .all(|partition| client.fetch_watermarks(&self.name, partition, PATIENCE).is_ok())
        })
        .await;
    }
}

impl Drop for FreshTopic {
    fn drop(&mut self) {
        let (brokers, name) = (self.brokers.clone(), self.name.clone());
        // A thread of its own: this one may be about to unwind, or in the middle of a runtime.
        let deleted = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // A test may have deleted it itself, or have stopped the broker.
            let options = AdminOptions::new().request_timeout(Some(Duration::from_secs(5)));
            drop(runtime.block_on(admin(&brokers).delete_topics(&[&name], &options)));
        });
        if deleted.join().is_err() {
            eprintln!("the topic {} could not be deleted", self.name);
        }
    }
}

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", brokers).create().expect("a client")
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
}

fn client(brokers: &str, group: Option<&str>) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    if let Some(group) = group {
        config.set("group.id", group).set("enable.auto.commit", "false");
    }
    config.create().expect("a client")
}

/// A record to send.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// The partition.
    pub partition: i32,
    /// The record key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// The headers.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The timestamp, if not now.
    pub timestamp: Option<i64>,
}

impl Outgoing {
    /// A record whose id is in its header.
    #[must_use]
    pub fn new(partition: i32, id: &str, key: &str, value: impl Into<Vec<u8>>) -> Self {
        Self {
            partition,
            key: Some(key.into()),
            value: Some(value.into()),
            headers: vec![(ID_HEADER.into(), Some(id.into()))],
            timestamp: None,
        }
    }
}

/// Sends records, each once and in order.
pub struct Producer {
    client: BaseProducer<Deliveries>,
    topic: String,
}

impl Producer {
    /// A producer to a topic.
    #[must_use]
    pub fn new(topic: &FreshTopic) -> Self {
        Self::with(topic, &[])
    }

    /// A producer with further properties.
    #[must_use]
    pub fn with(topic: &FreshTopic, properties: &[(&str, &str)]) -> Self {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &topic.brokers)
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("message.max.bytes", "15000000")
            .set("linger.ms", "2");
        for (property, value) in properties {
            config.set(*property, *value);
        }
        let client: BaseProducer<_> = config.create_with_context(Deliveries::default()).expect("a producer");
        if properties.iter().any(|(property, _)| *property == "transactional.id") {
            client.init_transactions(PATIENCE).expect("the broker answers");
        }
        Self { client, topic: topic.name.clone() }
    }

    /// Sends these records and returns the offset of each, when the broker has all. Blocks.
    #[allow(clippy::must_use_candidate, reason = "many want the records sent and nothing else")]
    pub fn send(&self, records: &[Outgoing]) -> Vec<i64> {
        for (index, record) in records.iter().enumerate() {
            self.enqueue(index, record);
        }
        self.client.flush(PATIENCE).expect("the broker takes the records");
        let mut delivered = std::mem::take(&mut *self.client.context().lock());
        delivered.sort_unstable();
        assert_eq!(delivered.len(), records.len(), "each record is delivered");
        delivered.into_iter().map(|(_, offset)| offset).collect()
    }

    fn enqueue(&self, index: usize, record: &Outgoing) {
        let mut headers = OwnedHeaders::new();
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: value.as_deref() });
        }
        let mut sending = BaseRecord::<[u8], [u8], _>::with_opaque_to(&self.topic, Box::new(index))
            .partition(record.partition)
            .headers(headers);
        sending.key = record.key.as_deref();
        sending.payload = record.value.as_deref();
        sending.timestamp = record.timestamp;
        loop {
            match self.client.send(sending) {
                Ok(()) => return,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), same)) => {
                    self.client.poll(Duration::from_millis(10));
                    sending = same;
                }
                Err((error, _)) => panic!("a record cannot be sent: {error}"),
            }
        }
    }

    /// Sends these records in a transaction, which is committed or aborted. Needs a producer with a
    /// `transactional.id`. Blocks.
    #[must_use]
    pub fn send_in_transaction(&self, records: &[Outgoing], commit: bool) -> Vec<i64> {
        self.client.begin_transaction().expect("a transaction");
        let offsets = self.send(records);
        if commit {
            self.client.commit_transaction(PATIENCE).expect("it is committed");
        } else {
            self.client.abort_transaction(PATIENCE).expect("it is aborted");
        }
        offsets
    }
}

/// Which records the broker has taken, and at which offset.
#[derive(Default)]
pub struct Deliveries(Mutex<Vec<(usize, i64)>>);

impl Deliveries {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(usize, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, index: Box<usize>) {
        // One that failed is missed by whoever counts.
        if let Ok(message) = result {
            self.lock().push((*index, message.offset()));
        }
    }
}

/// A consumer group, seen from outside.
pub struct Group {
    client: BaseConsumer,
    name: String,
}

impl Group {
    /// The group of this name, on the broker of the tests.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::at(&brokers(), name)
    }

    /// The group of this name, on another broker.
    #[must_use]
    pub fn at(brokers: &str, name: &str) -> Self {
        Self { client: client(brokers, Some(name)), name: name.to_owned() }
    }

    /// What is committed for each partition: offset and metadata.
    #[must_use]
    pub fn committed(&self, topic: &FreshTopic) -> Vec<Option<(i64, String)>> {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic.name(), 0, topic.partitions() - 1);
        let committed = self.client.committed_offsets(list, PATIENCE).expect("the broker answers");
        let committed = committed.elements_for_topic(topic.name());
        committed
            .iter()
            .map(|element| match element.offset() {
                Offset::Offset(offset) => Some((offset, element.metadata().to_owned())),
                _ => None,
            })
            .collect()
    }

    /// Records that are not committed, over all partitions.
    #[must_use]
    pub fn lag(&self, topic: &FreshTopic) -> i64 {
        self.lags(topic).iter().sum()
    }

    /// Records that are not committed, for each partition.
    #[must_use]
    pub fn lags(&self, topic: &FreshTopic) -> Vec<i64> {
        let committed = self.committed(topic);
        let ends = ends(&self.client, topic);
        ends.iter()
            .zip(committed)
            .map(|(end, committed)| end - committed.map_or(0, |(offset, _)| offset))
            .collect()
    }

    /// Commits this offset for each partition, as a person does with Kafka's own tools. The group must
    /// be empty.
    pub fn reset(&self, topic: &FreshTopic, offset: i64) {
        let mut list = TopicPartitionList::new();
        for partition in 0..topic.partitions() {
            list.add_partition_offset(topic.name(), partition, Offset::Offset(offset)).expect("an offset");
        }
        self.client.commit(&list, CommitMode::Sync).expect("the group is empty");
    }

    /// What it is doing, in Kafka's words, under the classic protocol.
    #[must_use]
    pub fn state(&self) -> String {
        let groups = self.client.client().fetch_group_list(Some(&self.name), PATIENCE);
        let groups = groups.expect("the broker answers");
        groups.groups().first().map(|group| group.state().to_owned()).unwrap_or_default()
    }

    /// The client ids of its members, sorted.
    #[must_use]
    pub fn members(&self) -> Vec<String> {
        let groups = self.client.client().fetch_group_list(Some(&self.name), PATIENCE);
        let groups = groups.expect("the broker answers");
        let members = groups.groups().iter().flat_map(rdkafka::groups::GroupInfo::members);
        let mut members: Vec<String> = members.map(|member| member.client_id().to_owned()).collect();
        members.sort_unstable();
        members
    }
}

fn ends(client: &BaseConsumer, topic: &FreshTopic) -> Vec<i64> {
    (0..topic.partitions())
        .map(|partition| {
            client.fetch_watermarks(topic.name(), partition, PATIENCE).expect("the broker answers").1
        })
        .collect()
}
