//! P1: however often a message is delivered, its effect happens once.

use inbox_tests::job::{Act, Job, JobSubscription};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, send};
use inbox_tests::oracle::{Ledger, Sent, distinct};
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_changes_nothing() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let running = Service::new(&ledger, &topic).start().await;
    let mut sent = send(&topic, &notes("m", 200, 10, 2));
    ledger.reaches(200).await;

    sent.extend(send(&topic, &notes("m", 200, 10, 2)));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.receipts().await, 200);
    assert_eq!(running.runs.of("m-0"), [1], "the handler is called once");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_with_another_payload_changes_nothing() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let running = Service::new(&ledger, &topic).start().await;
    let mut sent = send(&topic, &[(0, "m".into(), Job::note("a"))]);
    ledger.reaches(1).await;
    sent.extend(send(&topic, &[(0, "m".into(), Job::of("b", [Act::Note, Act::Look]))]));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// Both partitions hold every id before anyone looks: their lanes meet at the same ids.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_ids_in_two_partitions_at_once() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let mut drafts = notes("m", 400, 20, 1);
    drafts.extend(drafts.clone().into_iter().map(|(_, id, job)| (1, id, job)));
    let sent = send(&topic, &drafts);

    let running = Service::new(&ledger, &topic).start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// One lane, so that equal ids meet in one batch: under one key, under two, and next to each other.
#[tokio::test(flavor = "multi_thread")]
async fn equal_ids_in_one_batch() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let drafts: Vec<_> = (0..300)
        .flat_map(|number| {
            let (id, key) = (format!("m-{number}"), format!("key-{}", number % 7));
            let elsewhere = Job::note(&format!("other-{}", number % 3));
            [(0, id.clone(), Job::note(&key)), (0, id.clone(), Job::note(&key)), (0, id, elsewhere)]
        })
        .collect();
    let sent = send(&topic, &drafts);

    let running = Service::new(&ledger, &topic).limits(|limits| limits.lanes = 1).start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    // Of equal ids the lowest offset is the one that is handled.
    let first: Vec<i64> = ledger.effects().await.iter().map(|effect| effect.offset % 3).collect();
    assert_eq!(first, vec![0; 300]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_in_another_subscription_is_another_message() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let mut service = Service::new(&ledger, &topic);
    service.subscriptions.push(JobSubscription::new("others", topic.name()));
    let running = service.start().await;
    let mut drafts = notes("m", 50, 5, 1);
    drafts.extend(drafts.clone());
    let sent = send(&topic, &drafts);

    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    ledger.assert_once_in_order("others", &sent).await;
    running.stop().await;
}

/// Each process owns a partition, and both partitions get the same ids at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_ids_in_two_processes_at_once() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic);
    let (first, second) = (Worker::start(&service), Worker::start(&service.named("second")));
    let mut sent = Vec::new();
    let mut warm = 0;
    wait::until("each process has a partition", async || {
        sent.extend(send(&topic, &notes(&format!("warm-{warm}"), 2, 2, 2)));
        warm += 1;
        let effects = ledger.effects().await;
        let last = |partition| effects.iter().rev().find(|e| e.partition == partition).map(|e| &e.worker);
        last(0).is_some() && last(1).is_some() && last(0) != last(1)
    })
    .await;

    let drafts: Vec<_> = notes("m", 400, 20, 1)
        .into_iter()
        .flat_map(|(_, id, job)| [(0, id.clone(), job.clone()), (1, id, job)])
        .collect();
    sent.extend(send(&topic, &drafts));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    first.stop().await;
    second.stop().await;
}

/// What had its effect before the kill is sent again after it, beside what had not.
#[tokio::test(flavor = "multi_thread")]
async fn a_resend_across_a_kill() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic).property("group.instance.id", "static");
    let worker = Worker::start(&service);
    let drafts: Vec<_> = notes("m", 600, 12, 2)
        .into_iter()
        .map(|(partition, id, job)| (partition, id, Job::of(&job.account, [Act::Sleep(5), Act::Note])))
        .collect();
    let mut sent = send(&topic, &drafts);
    ledger.reaches(100).await;
    worker.kill();
    let before = ledger.count().await;
    assert!(before < 600, "it was killed in the middle");

    sent.extend(send(&topic, &drafts));
    let worker = Worker::start(&service.named("second"));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    worker.stop().await;
}

/// A second member joins and leaves under load: partitions go and come back while their units run.
#[tokio::test(flavor = "multi_thread")]
async fn across_rebalances() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(4).await);
    let service = Service::new(&ledger, &topic);
    let first = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan::default());
    for round in 0..3 {
        let second = Worker::start(&service.named(&format!("second-{round}")));
        shares(&ledger, &format!("second-{round}")).await;
        second.stop().await;
    }
    let killed = Worker::start(&service.named("killed"));
    shares(&ledger, "killed").await;
    killed.kill();

    let sent: Vec<Sent> = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(
        ledger.effects().await.iter().all(|effect| effect.attempt == 1),
        "nothing counts against a message"
    );
    first.stop().await;
}

async fn shares(ledger: &Ledger, worker: &str) {
    wait::until(&format!("effects of {worker}"), async || {
        let sql = "SELECT count(*) FROM effects WHERE worker = $1";
        ledger.query(sql, &[&worker]).await[0].get::<_, i64>(0) > 20
    })
    .await;
}
