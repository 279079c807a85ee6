//! P10: a replica that lagged is promoted under a running process. What was finished on the old server
//! and is not on the new one happens there again, once and in order.

use std::collections::BTreeSet;
use std::time::Duration;

use inbox_core::store::Departed;
use inbox_kafka::Error;
use inbox_tests::job::Begin;
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, send};
use inbox_tests::oracle::{Ledger, distinct};
use inbox_tests::own_services::OwnServices;
use inbox_tests::postgres::FreshDatabase;
use inbox_tests::proxy::Proxy;
use inbox_tests::replica::Replica;
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

const OFTEN: Duration = Duration::from_millis(200);
/// Nothing is flushed between the cut and the promotion: the flush numbers tell nothing.
const RARELY: Duration = Duration::from_secs(25);

#[derive(Clone, Copy)]
enum Failover {
    /// The primary crashes, and some time later the address leads to the replica.
    AfterACrash,
    /// The address leads to the replica from one moment to the next: no probe ever fails.
    AtOnce,
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_with_flushes_in_between() {
    promoted(Failover::AfterACrash, OFTEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_without_a_flush() {
    promoted(Failover::AfterACrash, RARELY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_once_with_flushes_in_between() {
    promoted(Failover::AtOnce, OFTEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_once_without_a_flush() {
    promoted(Failover::AtOnce, RARELY).await;
}

async fn ids(ledger: &Ledger) -> BTreeSet<String> {
    ledger.effects().await.into_iter().map(|effect| effect.id).collect()
}

async fn promoted(failover: Failover, flush: Duration) {
    let services = OwnServices::local_postgres();
    let ledger = Ledger::of(FreshDatabase::create_at(&services.database).await).await;
    let replica = Replica::of(&services).await;
    let (topic, proxy) = (FreshTopic::create(4).await, Proxy::to(&ledger.url()).await);
    let mut service = Service::new(&ledger, &topic).limits(|limits| limits.flush_interval = flush);
    proxy.url().clone_into(&mut service.database);
    let worker = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(200).await;
    if flush == OFTEN {
        wait::until("flushes", async || {
            ledger.watermarks(&topic).await.iter().filter(|(_, number)| *number > 1).count() == 4
        })
        .await;
    }
    replica.cut_off().await;
    let before = ledger.count().await;
    ledger.reaches(before + 300).await;

    let finished_there = ids(&ledger).await;
    match failover {
        Failover::AfterACrash => {
            services.tell("postgres-stop");
            replica.promote().await;
        }
        Failover::AtOnce => replica.promote().await,
    }
    let ledger = ledger.moved_to(&replica.url).await;
    let kept = ids(&ledger).await;
    assert!(!kept.is_empty() && kept.len() < finished_there.len(), "the replica lags and is not empty");
    proxy.lead_to(&replica.url);

    let now = ledger.count().await;
    ledger.reaches(now + 400).await;
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    let on_new =
        ledger.number("SELECT count(*) FROM inbox.partitions WHERE right(server, 8) = '00000002'").await;
    assert_eq!(on_new, 4, "each ownership was taken on the new server");
    let log = worker.log();
    assert_eq!(log.contains("the database is older than what was committed"), flush == OFTEN);
    let complaints = worker.complaints();
    assert!(complaints < 40, "{complaints} warnings and errors");
    worker.stop().await;
    // Written down at the end, if not before.
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.receipts().await, distinct(&sent));
    assert_eq!(ledger.dead().await, []);
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1), "no attempt is counted");
    wait::until("Kafka knows", async || service.group().lag(&topic) == 0).await;
}

/// It lacks even the subscription. Meanwhile another one is registered there, which has receipts of the
/// very same ids: they are not those of ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_know_the_subscription() {
    let services = OwnServices::local_postgres();
    let ledger = Ledger::of(FreshDatabase::create_at(&services.database).await).await;
    let replica = Replica::of(&services).await;
    replica.cut_off().await;
    let (topic, proxy) = (FreshTopic::create(2).await, Proxy::to(&ledger.url()).await);
    let mut service = Service::new(&ledger, &topic);
    proxy.url().clone_into(&mut service.database);
    let running = service.start().await;
    let sent = send(&topic, &notes("note", 40, 8, 2));
    ledger.is_finished(&topic).await;

    replica.promote().await;
    let ledger = ledger.moved_to(&replica.url).await;
    let others = Service::new(&ledger, &topic)
        .subscription(|subscription| "others".clone_into(&mut subscription.name));
    others.finishes(&ledger, &topic).await;
    let others_did = ledger.count().await;
    proxy.lead_to(&replica.url);
    let more = send(&topic, &notes("more", 40, 8, 2));
    let error = running.fails().await;
    assert!(matches!(error, Error::Departed(Departed::Unknown { .. })), "{error:?}");
    assert!(error.to_string().contains("start the service again"), "{error}");

    // Kafka has offsets of the group: it has to be said where the subscription begins.
    let sent = [sent, more].concat();
    let error = service.start().await.fails().await;
    assert!(error.to_string().contains("start"), "{error}");
    let running = service.subscription(|s| s.begin = Some(Begin::Earliest)).start().await;
    ledger.reaches(others_did + distinct(&sent)).await;
    running.stop().await;
    ledger.assert_once_in_order("jobs", &sent).await;
}
