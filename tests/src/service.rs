//! A service that consumes: what it is made of, and one that runs inside the test.

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use inbox_core::{Inbox, Postgres, PostgresStore, RetryPolicy, Settings};
use inbox_kafka::{Error, KafkaConfig, Stopped, consume};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::job::{JobSubscription, Runs, Worker};
use crate::kafka::{FreshTopic, Group, brokers};
use crate::oracle::Ledger;
use crate::wait;

/// Everything a service is made of, as a process can be told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Its name: the application name of its connections, and its client id.
    pub name: String,
    /// Kafka's address.
    pub brokers: String,
    /// The database's address.
    pub database: String,
    /// The consumer group.
    pub group: String,
    /// Properties of the Kafka client.
    pub properties: Vec<(String, String)>,
    /// Whether it starts before its topics exist.
    pub waits_for_topics: bool,
    /// Its subscriptions.
    pub subscriptions: Vec<JobSubscription>,
    /// Its limits.
    pub limits: Limits,
}

/// The limits that tests change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// `Settings::lanes`
    pub lanes: usize,
    /// `Settings::max_batch`
    pub max_batch: usize,
    /// `Settings::max_in_flight`
    pub max_in_flight: usize,
    /// `Settings::max_record_bytes`
    pub max_record_bytes: usize,
    /// `Settings::time_limit`
    pub time_limit: Duration,
    /// `Settings::lock_timeout`
    pub lock_timeout: Duration,
    /// `Settings::flush_interval`
    pub flush_interval: Duration,
    /// `Settings::drain_limit`
    pub drain_limit: Duration,
    /// `RetryPolicy::in_place`
    pub in_place: u32,
    /// `RetryPolicy::base`
    pub retry_base: Duration,
    /// `RetryPolicy::cap`
    pub retry_cap: Duration,
    /// `RetryPolicy::max_attempts`, also those of a broken constraint
    pub max_attempts: u32,
    /// `Settings::max_open_keys`
    pub max_open_keys: usize,
    /// `Settings::probe_cap`
    pub probe_cap: Duration,
}

impl Default for Limits {
    /// Those of [`Settings`], with shorter waits and more attempts.
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            lanes: 4,
            max_batch: settings.max_batch,
            max_in_flight: settings.max_in_flight,
            max_record_bytes: settings.max_record_bytes,
            time_limit: settings.time_limit,
            lock_timeout: settings.lock_timeout,
            flush_interval: Duration::from_millis(200),
            drain_limit: settings.drain_limit,
            in_place: settings.retry.in_place,
            retry_base: Duration::from_millis(50),
            retry_cap: Duration::from_secs(1),
            max_attempts: 1000,
            max_open_keys: settings.max_open_keys,
            probe_cap: Duration::from_millis(500),
        }
    }
}

impl Limits {
    /// As settings.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            lanes: self.lanes,
            max_batch: self.max_batch,
            max_in_flight: self.max_in_flight,
            max_record_bytes: self.max_record_bytes,
            time_limit: self.time_limit,
            lock_timeout: self.lock_timeout,
            flush_interval: self.flush_interval,
            drain_limit: self.drain_limit,
            retry: RetryPolicy {
                in_place: self.in_place,
                base: self.retry_base,
                cap: self.retry_cap,
                max_attempts: self.max_attempts,
                constraint_attempts: self.max_attempts,
                ..RetryPolicy::default()
            },
            max_open_keys: self.max_open_keys,
            probe_cap: self.probe_cap,
            ..Settings::default()
        }
    }
}

impl Service {
    /// One subscription, `jobs`, to the topic, in a group of its own.
    #[must_use]
    pub fn new(ledger: &Ledger, topic: &FreshTopic) -> Self {
        let service = Self {
            name: String::new(),
            brokers: brokers(),
            database: ledger.url(),
            group: format!("inbox-test-{}", Uuid::new_v4().simple()),
            properties: Vec::new(),
            waits_for_topics: false,
            subscriptions: vec![JobSubscription::new("jobs", topic.name())],
            limits: Limits::default(),
        };
        service.named("first").session(Duration::from_secs(6))
    }

    /// The same under another name: another process of the service.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self { name: name.into(), ..self.clone() }.property("client.id", name)
    }

    /// With a property of the Kafka client.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// Under `group.protocol=consumer`, where the broker decides about sessions.
    #[must_use]
    pub fn consumer_protocol(mut self) -> Self {
        self.properties.retain(|(name, _)| name != "session.timeout.ms" && name != "heartbeat.interval.ms");
        self.property("group.protocol", "consumer")
    }

    /// With this session time-out.
    #[must_use]
    pub fn session(self, timeout: Duration) -> Self {
        self.property("session.timeout.ms", &timeout.as_millis().to_string())
            .property("heartbeat.interval.ms", &(timeout / 6).as_millis().to_string())
    }

    /// With its only subscription changed.
    #[must_use]
    pub fn subscription(mut self, change: impl FnOnce(&mut JobSubscription)) -> Self {
        change(&mut self.subscriptions[0]);
        self
    }

    /// With its limits changed.
    #[must_use]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Its consumer group, seen from outside.
    #[must_use]
    pub fn group(&self) -> Group {
        Group::at(&self.brokers, &self.group)
    }

    /// What it tells Kafka's client.
    #[must_use]
    pub fn kafka(&self) -> KafkaConfig {
        let config = KafkaConfig::new(self.brokers.as_str(), self.group.as_str());
        let config = if self.waits_for_topics { config.wait_for_topics() } else { config };
        self.properties.iter().fold(config, |config, (name, value)| config.property(name, value))
    }

    /// Its store, under its own application name.
    ///
    /// # Errors
    /// The store's.
    pub async fn store(&self) -> Result<PostgresStore, inbox_core::StoreError> {
        let separator = if self.database.contains('?') { '&' } else { '?' };
        PostgresStore::connect(&format!("{}{separator}application_name={}", self.database, self.name)).await
    }

    /// An inbox with its limits and without handlers.
    pub async fn inbox(&self) -> Inbox<Postgres> {
        let store = self.store().await.expect("the database answers");
        Inbox::new(store).settings(self.limits.settings())
    }

    /// An inbox with its subscriptions.
    pub async fn jobs(&self, runs: &Runs) -> Inbox<Postgres> {
        let inbox = self.inbox().await;
        self.subscriptions
            .iter()
            .fold(inbox, |inbox, subscription| inbox.handle(Worker::new(subscription, runs)))
    }

    /// Runs it inside the test.
    pub async fn start(&self) -> Running {
        let runs = Runs::default();
        let inbox = self.jobs(&runs).await;
        self.start_with(inbox, runs)
    }

    /// Runs it inside the test with another configuration of the Kafka client.
    pub async fn start_on(&self, kafka: KafkaConfig) -> Running {
        let runs = Runs::default();
        let inbox = self.jobs(&runs).await;
        Self::run(kafka, inbox, runs)
    }

    /// Runs it inside the test until everything of the topic is finished, and ends it.
    pub async fn finishes(&self, ledger: &Ledger, topic: &FreshTopic) {
        let running = self.start().await;
        ledger.is_finished(topic).await;
        running.stop().await;
    }

    /// Runs another inbox with its configuration inside the test.
    #[must_use]
    pub fn start_with(&self, inbox: Inbox<Postgres>, runs: Runs) -> Running {
        Self::run(self.kafka(), inbox, runs)
    }

    fn run(kafka: KafkaConfig, inbox: Inbox<Postgres>, runs: Runs) -> Running {
        log();
        let (stop, stopped) = oneshot::channel::<()>();
        let stops = Stops::default();
        let told = stops.clone();
        let consuming = consume(kafka, inbox)
            .with_graceful_shutdown(async { drop(stopped.await) })
            .on_stop(move |stopped| told.lock().push(stopped.clone()));
        Running { stop: Some(stop), consuming: tokio::spawn(consuming.into_future()), runs, stops }
    }
}

/// A service that runs inside the test. Dropped, it ends gracefully some time later.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    consuming: JoinHandle<Result<(), Error>>,
    /// What its handlers were called for.
    pub runs: Runs,
    /// The stops of partitions that it told.
    pub stops: Stops,
}

/// Stops of partitions, in order.
#[derive(Clone, Debug, Default)]
pub struct Stops(Arc<Mutex<Vec<Stopped>>>);

impl Stops {
    /// How many were told.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Waits for the first one of this partition.
    pub async fn of(&self, topic: &FreshTopic, partition: i32) -> Stopped {
        let what = format!("a stop of partition {partition}");
        wait::some(&what, async || {
            let is_it =
                |stop: &&Stopped| stop.topic.as_str() == topic.name() && stop.partition.0 == partition;
            self.lock().iter().find(is_it).cloned()
        })
        .await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Stopped>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Ends it gracefully, which must go well.
    pub async fn stop(mut self) {
        self.stop = None;
        let ended = wait::patiently("the end of the service", &mut self.consuming).await;
        ended.expect("no panic").expect("it ends well");
    }

    /// Waits until it ends by itself, and says why it did.
    pub async fn fails(mut self) -> Error {
        let ended = wait::patiently("the failure of the service", &mut self.consuming).await;
        ended.expect("no panic").expect_err("it cannot go on")
    }

    /// Ends it as if its future was dropped.
    pub fn abort(self) {
        self.consuming.abort();
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.consuming.is_finished()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Why a test waited in vain.
        if std::thread::panicking()
            && self.consuming.is_finished()
            && let Some(ended) = (&mut self.consuming).now_or_never()
        {
            eprintln!("the service had ended: {ended:?}");
        }
    }
}

/// Prints what the library tells, if `INBOX_TEST_LOG` says how much: `info`, `debug`.
pub fn log() {
    if let Some(level) =
        std::env::var("INBOX_TEST_LOG").ok().and_then(|level| level.parse::<tracing::Level>().ok())
    {
        let subscriber = tracing_subscriber::fmt().with_max_level(level);
        // Another test of the same program may have done it.
        let _ = subscriber.with_writer(std::io::stderr).with_ansi(false).try_init();
    }
}
