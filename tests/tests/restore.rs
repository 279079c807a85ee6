//! The database goes back to what it was: Kafka's flush numbers tell, and what is gone with it happens
//! again (P10).

use std::time::Duration;

use inbox_core::{OnRestore, Settings};
use inbox_kafka::Error;
use inbox_tests::job::Runs;
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{notes, send};
use inbox_tests::oracle::{Ledger, Sent};
use inbox_tests::service::{Limits, Service};
use inbox_tests::wait;

/// Everything that a backup of the database would have.
const TABLES: [&str; 5] =
    ["inbox.subscriptions", "inbox.partitions", "inbox.watermarks", "inbox.messages", "effects"];

fn backup(table: &str) -> String {
    format!("backup_{}", table.replace('.', "_"))
}

async fn back_up(ledger: &Ledger) {
    for table in TABLES {
        ledger.execute(&format!("CREATE TABLE {} AS TABLE {table}", backup(table))).await;
    }
}

async fn restore(ledger: &Ledger) {
    ledger.execute(&format!("TRUNCATE {} CASCADE", TABLES.join(", "))).await;
    for table in TABLES {
        let sql = format!("INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {}", backup(table));
        ledger.execute(&sql).await;
    }
}

/// The number beside the offset of each partition in Kafka.
fn numbers(service: &Service, topic: &FreshTopic) -> Vec<i64> {
    let committed = service.group().committed(topic);
    committed
        .into_iter()
        .map(|committed| committed.and_then(|(_, number)| number.parse().ok()).expect("a number"))
        .collect()
}

/// A service that has handled some messages before a backup and more after it, and was restored.
async fn restored() -> (Ledger, FreshTopic, Service, Vec<Sent>) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic);
    let mut sent = Vec::new();
    for round in ["before", "after", "later"] {
        sent.extend(send(&topic, &notes(round, 40, 8, 2)));
        service.finishes(&ledger, &topic).await;
        if round == "before" {
            back_up(&ledger).await;
        }
    }
    restore(&ledger).await;
    assert_eq!(ledger.count().await, 40);
    (ledger, topic, service, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_with_it_happens_again() {
    let (ledger, topic, service, mut sent) = restored().await;
    let before = numbers(&service, &topic);
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    sent.extend(send(&topic, &notes("at last", 20, 8, 2)));
    ledger.is_finished(&topic).await;
    running.stop().await;
    ledger.assert_once_in_order("jobs", &sent).await;
    wait::until("the numbers go on above those that Kafka had", async || {
        numbers(&service, &topic).iter().zip(&before).all(|(now, before)| now > before)
    })
    .await;
}

/// As a flush sees a promoted replica: the ownership was taken on a server that this one is not.
#[tokio::test(flavor = "multi_thread")]
async fn an_ownership_does_not_outlive_its_server() {
    // Another cluster, on the same timeline.
    outlived("'another ' || right(server, 8)", |limits| limits.flush_interval = Duration::from_millis(100))
        .await;
}

/// As an admission sees it, long before the next flush: nothing may overtake what is gone.
#[tokio::test(flavor = "multi_thread")]
async fn an_ownership_does_not_outlive_its_timeline() {
    outlived("left(server, -8) || '00000063'", |limits| limits.flush_interval = Duration::from_hours(1))
        .await;
}

async fn outlived(server: &str, limits: impl FnOnce(&mut Limits)) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic).limits(limits);
    let mut sent = send(&topic, &notes("before", 40, 8, 2));
    let running = service.start().await;
    ledger.reaches(40).await;
    let epochs = async || {
        let rows = ledger.query("SELECT epoch::text FROM inbox.partitions ORDER BY partition", &[]).await;
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    let before = epochs().await;
    ledger.execute(&format!("UPDATE inbox.partitions SET server = {server}")).await;
    sent.extend(send(&topic, &notes("after", 40, 8, 2)));
    wait::until("each partition was taken over again", async || {
        epochs().await.iter().zip(&before).all(|(now, before)| now != before)
    })
    .await;
    ledger.reaches(80).await;
    running.stop().await;
    // Whatever was not written down is consumed again.
    service.finishes(&ledger, &topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_where_that_was_asked_for() {
    let (ledger, topic, service, sent) = restored().await;
    for _ in 0..2 {
        let runs = Runs::default();
        let settings = Settings { on_restore: OnRestore::Stop, ..service.limits.settings() };
        let inbox = service.jobs(&runs).await.settings(settings);
        let error = service.start_with(inbox, runs).fails().await;
        assert!(matches!(error, Error::DatabaseWentBack { .. }), "{error:?}");
        assert!(error.to_string().contains("on_restore"), "{error}");
        assert_eq!(ledger.count().await, 40, "nothing was handled");
    }
    // A person decides to consume again.
    service.finishes(&ledger, &topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
}
