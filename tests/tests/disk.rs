//! P6: the database's disk is full for a while.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inbox_tests::job::Act;
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan};
use inbox_tests::oracle::{Ledger, distinct};
use inbox_tests::own_services::OwnServices;
use inbox_tests::postgres::FreshDatabase;
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

/// Takes what is left of the disk.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("ballast");
    let mut file = std::fs::File::create(&path).expect("there is room for one more");
    for bytes in [1 << 20, 4096, 1] {
        let block = vec![1; bytes];
        while file.write_all(&block).is_ok() {}
    }
    path
}

/// Lets the log grow until the server ends itself for want of room.
async fn exhaust_the_log(ledger: &Ledger) {
    for _ in 0..2000 {
        let sql = "SELECT pg_logical_emit_message(false, 'ballast', repeat('x', 100000))";
        if ledger.client.batch_execute(sql).await.is_err() {
            return;
        }
    }
    panic!("the log has room for more than the disk");
}

/// First tables cannot grow while the log still has room; then the server ends itself, since the log has
/// none. Neither is a message's fault.
async fn full_for_a_while(acts: Vec<Act>) {
    let services = OwnServices::postgres_on_disk("96m");
    let folder = services.postgres_folder();
    let mut ledger = Ledger::of(FreshDatabase::create_at(&services.database).await).await;
    let topic = FreshTopic::create(4).await;
    let service = Service::new(&ledger, &topic);
    let worker = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan { acts, ..LoadPlan::default() });
    for round in 1..=2 {
        let before = ledger.count().await;
        ledger.reaches(before + 200).await;
        let ballast = fill(&folder);
        wait::until("it pauses", async || worker.log().matches("the database is down").count() >= round)
            .await;
        if round == 2 {
            exhaust_the_log(&ledger).await;
        }
        let group = service.group();
        wait::stays("a member", Duration::from_secs(2), async || group.members() == ["first"]).await;
        std::fs::remove_file(ballast).expect("it is there");
        // If it has ended itself.
        services.tell("postgres-start");
        ledger = ledger.reconnected().await;
    }
    let before = ledger.count().await;
    ledger.reaches(before + 200).await;
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.receipts().await, distinct(&sent));
    assert_eq!(ledger.dead().await, []);
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1), "no attempt is counted");
    let complaints = worker.complaints();
    assert!(complaints < 40, "{complaints} warnings and errors");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_for_a_while_in_batches() {
    full_for_a_while(vec![Act::Note]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_for_a_while_in_sequence() {
    full_for_a_while(vec![Act::Look, Act::Note]).await;
}
