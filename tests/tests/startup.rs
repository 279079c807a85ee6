//! What is wrong at the start is said, by name, before anything is consumed, and soon.

use std::future::IntoFuture as _;
use std::time::{Duration, Instant};

use inbox_core::{Inbox, Postgres, PostgresStore, Settings};
use inbox_kafka::{Error, KafkaConfig, consume};
use inbox_tests::job::{JobSubscription, Runs, Worker};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{notes, send};
use inbox_tests::oracle::Ledger;
use inbox_tests::postgres::FreshDatabase;
use inbox_tests::proxy::Proxy;
use inbox_tests::service::{Running, Service};
use tokio::net::TcpListener;

/// No check takes longer than this, whatever does not answer.
const SOON: Duration = Duration::from_secs(30);

async fn scene() -> (Ledger, FreshTopic, Service) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let service = Service::new(&ledger, &topic);
    (ledger, topic, service)
}

/// What consuming fails with, and that it says each of these words.
async fn refused(config: KafkaConfig, inbox: Inbox<Postgres>, words: &[&str]) -> Error {
    let since = Instant::now();
    let ended = tokio::time::timeout(SOON, consume(config, inbox).into_future()).await;
    let error = ended.expect("it ends soon").expect_err("it cannot start");
    says(&error, words);
    println!("after {:?}: {error}", since.elapsed());
    error
}

fn says(error: &dyn std::error::Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_topic() {
    let (_ledger, _topic, service) = scene().await;
    let service = service.subscription(|s| s.topics.push("no-such-topic".into()));
    let inbox = service.jobs(&Runs::default()).await;
    let error = refused(service.kafka(), inbox, &["topic no-such-topic does not exist", "create it"]).await;
    assert!(matches!(error, Error::UnknownTopic { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_nobody_is() {
    let (_ledger, _topic, service) = scene().await;
    let inbox = service.jobs(&Runs::default()).await;
    let error = refused(KafkaConfig::new("127.0.0.1:9", "group"), inbox, &["127.0.0.1:9"]).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_answer() {
    let (_ledger, _topic, service) = scene().await;
    let inbox = service.jobs(&Runs::default()).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = silent.local_addr().expect("an address").to_string();
    let error = refused(KafkaConfig::new(&*address, "group"), inbox, &[&*address]).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_nobody_is() {
    let since = Instant::now();
    let error = PostgresStore::connect("postgres://postgres@127.0.0.1:9/postgres")
        .await
        .expect_err("nobody is there");
    says(&error, &["cannot connect to the database", "refused"]);
    assert!(since.elapsed() < SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("postgres://postgres@{}/postgres", silent.local_addr().expect("an address"));
    let since = Instant::now();
    let error = PostgresStore::connect(&url).await.expect_err("nobody answers");
    says(&error, &["cannot connect to the database", "no answer"]);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there() {
    let (ledger, _topic, _service) = scene().await;
    let url = ledger.url().replace("inbox_test_", "no_such_database_");
    let error = PostgresStore::connect(&url).await.expect_err("it is not there");
    says(&error, &["no_such_database_"]);
}

/// The store was connected, and then the database went away.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_before_the_start() {
    let (ledger, _topic, mut service) = scene().await;
    let proxy = Proxy::to(&ledger.url()).await;
    service.database = proxy.url().to_owned();
    let inbox = service.jobs(&Runs::default()).await;
    proxy.cut();
    refused(service.kafka(), inbox, &["cannot connect to the database"]).await;
    proxy.restore();
    let inbox = service.jobs(&Runs::default()).await;
    proxy.silence();
    refused(service.kafka(), inbox, &["no answer"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_migration() {
    let topic = FreshTopic::create(1).await;
    let ledger = Ledger::bare(FreshDatabase::create().await).await;
    let service = Service::new(&ledger, &topic);
    let inbox = service.jobs(&Runs::default()).await;
    refused(service.kafka(), inbox, &["store.migrate()"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_a_later_version() {
    let (ledger, _topic, service) = scene().await;
    ledger.execute("INSERT INTO inbox.migrations (number, name) VALUES (999, 'later')").await;
    let inbox = service.jobs(&Runs::default()).await;
    refused(service.kafka(), inbox, &["999", "update the service"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_handler() {
    let (_ledger, _topic, service) = scene().await;
    let inbox = service.inbox().await;
    refused(service.kafka(), inbox, &["no handler", ".handle("]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_handlers_under_one_name() {
    let (_ledger, topic, mut service) = scene().await;
    service.subscriptions.push(JobSubscription::new("jobs", topic.name()));
    let inbox = service.jobs(&Runs::default()).await;
    refused(service.kafka(), inbox, &["two handlers", "jobs"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_under_which_nothing_could_be_done() {
    let (_ledger, _topic, service) = scene().await;
    let handler = || Worker::new(&service.subscriptions[0], &Runs::default());
    for (settings, name) in [
        (Settings { lanes: 0, ..Settings::default() }, "lanes"),
        (Settings { max_batch: 0, ..Settings::default() }, "max_batch"),
        (Settings { max_in_flight: 0, ..Settings::default() }, "max_in_flight"),
        (Settings { flush_interval: Duration::ZERO, ..Settings::default() }, "flush_interval"),
        (Settings { time_limit: Duration::MAX, ..Settings::default() }, "time_limit"),
    ] {
        let inbox =
            Inbox::new(service.store().await.expect("it answers")).handle(handler()).settings(settings);
        refused(service.kafka(), inbox, &[name]).await;
    }
    let unlimited = service.clone().subscription(|s| s.max_batch = Some(0));
    refused(service.kafka(), unlimited.jobs(&Runs::default()).await, &["jobs", "max_batch"]).await;
    let timeless = service.clone().subscription(|s| s.time_limit = Some(0));
    refused(service.kafka(), timeless.jobs(&Runs::default()).await, &["jobs", "time limit"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn properties_that_break_a_promise() {
    let (_ledger, _topic, service) = scene().await;
    for (property, value) in [
        ("enable.auto.commit", "true"),
        ("enable.auto.offset.store", "true"),
        ("auto.offset.reset", "latest"),
        ("partition.assignment.strategy", "range"),
        ("no.such.property", "1"),
        ("session.timeout.ms", "soon"),
    ] {
        let inbox = service.jobs(&Runs::default()).await;
        refused(service.kafka().property(property, value), inbox, &[property]).await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_runtime_of_one_thread() {
    let (_ledger, _topic, service) = scene().await;
    let inbox = service.jobs(&Runs::default()).await;
    refused(service.kafka(), inbox, &["multi-thread", "#[tokio::main]"]).await;
}

/// After each refusal the same group and database serve as if nothing had been.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_nothing_behind() {
    let (ledger, topic, service) = scene().await;
    let sent = send(&topic, &notes("m", 20, 5, 1));
    let wrong = service.clone().subscription(|s| s.topics.push("no-such-topic".into()));
    refused(service.kafka(), wrong.jobs(&Runs::default()).await, &["no-such-topic"]).await;
    assert_eq!(ledger.number("SELECT count(*) FROM inbox.subscriptions").await, 0);
    let running: Running = service.start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}
