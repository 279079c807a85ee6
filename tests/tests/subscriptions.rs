//! P1 to P4 across what a person does with subscriptions: moved to another group, removed, added again,
//! left out for a while.

use inbox_core::store::{Departed, OnUnfinished, RegisterError, TakeOver};
use inbox_core::{Database as _, Postgres, PostgresStore, StartError, StoreError, Topic};
use inbox_kafka::Error;
use inbox_tests::job::{Begin, JobSubscription};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, send};
use inbox_tests::oracle::Ledger;
use inbox_tests::scene::{A_WHILE, LIMITS, ownership, registration};
use inbox_tests::service::{Running, Service};
use inbox_tests::wait;
use tokio::time::timeout;

async fn scene(partitions: i32) -> (Ledger, FreshTopic, Service) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(partitions).await);
    let service = Service::new(&ledger, &topic);
    (ledger, topic, service)
}

async fn store(ledger: &Ledger) -> PostgresStore {
    PostgresStore::connect(&ledger.url()).await.expect("the database answers")
}

/// The same service in another consumer group.
fn elsewhere(service: &Service) -> Service {
    Service { group: format!("{}-elsewhere", service.group), ..service.named("elsewhere") }
}

/// Waits until every record lies below the watermark of each subscription, in whichever group.
async fn is_finished_everywhere(ledger: &Ledger, topic: &FreshTopic) {
    let lowest = "SELECT min(w.watermark) FROM inbox.watermarks w JOIN inbox.partitions p ON p.id = w.partition_id \
                  WHERE p.topic = $1 GROUP BY p.partition ORDER BY p.partition";
    wait::until_is("the watermarks", topic.ends(), async || {
        ledger.query(lowest, &[&topic.name()]).await.iter().map(|row| row.get(0)).collect()
    })
    .await;
}

/// Moves `jobs` under whatever runs: a transaction in the way is no reason to give up.
async fn moves(ledger: &Ledger, from: &Service, to: &Service) {
    let store = store(ledger).await;
    let moved =
        wait::some("the move", async || store.move_subscription("jobs", &from.group, &to.group).await.ok());
    assert!(moved.await.watermarks > 0);
}

async fn ends_as_moved(running: Running, to: &Service) {
    let error = running.fails().await;
    assert!(matches!(error, Error::Departed(Departed::Moved { .. })), "{error:?}");
    for part in ["jobs", to.group.as_str(), "leave its handler out"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// Two processes of the old group run, and records keep coming: whatever was in flight is taken up by
/// the new group where the old one was. There, further, and back.
#[tokio::test(flavor = "multi_thread")]
async fn moved_under_load() {
    let (ledger, topic, old) = scene(4).await;
    let new = elsewhere(&old);
    let third = elsewhere(&new);
    let load = Load::start(&topic, LoadPlan::default());
    let running = [old.start().await, old.named("second").start().await];
    ledger.reaches(300).await;
    moves(&ledger, &old, &new).await;
    let there = new.start().await;
    for running in running {
        ends_as_moved(running, &new).await;
    }
    // What is started in the old group again is refused before the first record.
    let error = old.start().await.fails().await;
    assert!(
        matches!(error, Error::Start(StartError::Register(RegisterError::OtherGroup { .. }))),
        "{error:?}"
    );
    let mut reached = ledger.count().await;
    let mut here = (new.clone(), there);
    for next in [third.clone(), old.clone()] {
        ledger.reaches(reached + 300).await;
        moves(&ledger, &here.0, &next).await;
        let running = next.start().await;
        ends_as_moved(here.1, &next).await;
        reached = ledger.count().await;
        here = (next, running);
    }
    ledger.reaches(reached + 300).await;
    let sent = load.stop();
    ledger.is_finished(&topic).await;
    here.1.stop().await;
    ledger.assert_once_in_order("jobs", &sent).await;
}

/// The new group's service may have other subscriptions to the same partitions, and so may the old one's:
/// each goes on from its own watermark.
#[tokio::test(flavor = "multi_thread")]
async fn moved_among_others() {
    let (ledger, topic, old) = scene(2).await;
    let with = |service: &Service, names: &[&str]| Service {
        subscriptions: names.iter().map(|name| JobSubscription::new(name, topic.name())).collect(),
        ..service.clone()
    };
    let new = elsewhere(&old);
    let mut sent = send(&topic, &notes("m", 60, 10, 2));
    let left = with(&old, &["jobs", "stays"]).start().await;
    let there = with(&new, &["there"]).start().await;
    ledger.reaches(3 * 60).await;
    is_finished_everywhere(&ledger, &topic).await;
    there.stop().await;
    moves(&ledger, &old, &new).await;
    sent.extend(send(&topic, &notes("n", 60, 10, 2)));
    ends_as_moved(left, &new).await;
    let (left, right) = (with(&old, &["stays"]).start().await, with(&new, &["there", "jobs"]).start().await);
    ledger.reaches(3 * 120).await;
    is_finished_everywhere(&ledger, &topic).await;
    left.stop().await;
    right.stop().await;
    for subscription in ["jobs", "stays", "there"] {
        ledger.assert_once_in_order(subscription, &sent).await;
    }
}

/// The service is shut out; started again by whatever watches it, it is refused; and a new one of the
/// same name that says where it begins sees every message again.
#[tokio::test(flavor = "multi_thread")]
async fn removed_under_a_running_service() {
    let (ledger, topic, service) = scene(2).await;
    let service = Service {
        subscriptions: ["jobs", "totals"].map(|name| JobSubscription::new(name, topic.name())).into(),
        ..service
    };
    let mut sent = send(&topic, &notes("m", 40, 5, 2));
    let running = service.start().await;
    ledger.reaches(80).await;
    ledger.is_finished(&topic).await;
    wait::until("the offsets in Kafka", async || service.group().lag(&topic) == 0).await;
    let removed =
        store(&ledger).await.remove_subscription("jobs", &service.group, OnUnfinished::Refuse).await;
    assert_eq!(removed.expect("nothing is in the way").rows, 40);
    sent.extend(send(&topic, &notes("n", 40, 5, 2)));
    let error = running.fails().await;
    assert!(matches!(error, Error::Departed(Departed::Removed { .. })), "{error:?}");
    assert!(error.to_string().contains("jobs"), "{error}");

    let error = service.start().await.fails().await;
    assert!(
        matches!(error, Error::Start(StartError::Register(RegisterError::WasRemoved { .. }))),
        "{error:?}"
    );
    assert!(error.to_string().contains("start = committed"), "{error}");
    let none = ledger.effects().await.iter().filter(|effect| effect.subscription == "jobs").count();
    assert_eq!(none, 40, "nothing since");

    // Without its handler the service goes on where it was.
    let without =
        Service { subscriptions: vec![JobSubscription::new("totals", topic.name())], ..service.clone() };
    without.finishes(&ledger, &topic).await;
    ledger.assert_once_in_order("totals", &sent).await;

    ledger.execute("DELETE FROM effects WHERE subscription = 'jobs'").await;
    let anew = service.subscription(|jobs| jobs.begin = Some(Begin::Earliest));
    for _ in 0..2 {
        let running = anew.start().await;
        ledger.reaches(160).await;
        ledger.is_finished(&topic).await;
        running.stop().await;
    }
    for subscription in ["jobs", "totals"] {
        ledger.assert_once_in_order(subscription, &sent).await;
    }
}

/// It keeps its watermark while the others of its group go on, whether its receipts below it are there or
/// not: nothing twice, nothing lost.
#[tokio::test(flavor = "multi_thread")]
async fn left_out_and_added_again() {
    let (ledger, topic, service) = scene(2).await;
    let both: Vec<_> = ["jobs", "totals"].map(|name| JobSubscription::new(name, topic.name())).into();
    let only = vec![both[1].clone()];
    let mut sent = Vec::new();
    for (round, receipts_go) in [(0, false), (1, true)] {
        sent.extend(send(&topic, &notes(&format!("both-{round}"), 60, 10, 2)));
        Service { subscriptions: both.clone(), ..service.clone() }.finishes(&ledger, &topic).await;
        sent.extend(send(&topic, &notes(&format!("one-{round}"), 60, 10, 2)));
        let running = Service { subscriptions: only.clone(), ..service.clone() }.start().await;
        ledger.reaches(2 * sent.len() - 60).await;
        running.stop().await;
        if receipts_go {
            ledger
                .execute(
                    "DELETE FROM inbox.messages m USING inbox.watermarks w \
                     WHERE w.subscription_id = m.subscription_id AND w.partition_id = m.partition_id \
                         AND m.record_offset < w.watermark AND m.state = 2",
                )
                .await;
        }
    }
    sent.extend(send(&topic, &notes("end", 60, 10, 2)));
    Service { subscriptions: both, ..service }.finishes(&ledger, &topic).await;
    for subscription in ["jobs", "totals"] {
        ledger.assert_once_in_order(subscription, &sent).await;
    }
}

/// More receipts than one batch takes, of two subscriptions in turn.
#[tokio::test(flavor = "multi_thread")]
async fn many_receipts_follow_in_batches() {
    let (ledger, topic, service) = scene(1).await;
    let names = ["jobs", "totals"];
    let subscriptions = names.map(|name| JobSubscription::new(name, topic.name())).into();
    let service = Service { subscriptions, ..service };
    let _ = send(&topic, &notes("m", 1, 1, 1));
    service.finishes(&ledger, &topic).await;
    ledger
        .execute(
            "INSERT INTO inbox.messages \
                 (message_id, record_offset, subscription_id, partition_id, fingerprint, state, outcome) \
             SELECT gen_random_uuid(), 0, w.subscription_id, w.partition_id, 0, 2, 0 \
             FROM inbox.watermarks w, generate_series(1, 15000)",
        )
        .await;
    let (store, new) = (store(&ledger).await, elsewhere(&service));
    let moved = store.move_subscription("jobs", &service.group, &new.group).await.expect("nothing is open");
    assert_eq!((moved.watermarks, moved.rows), (1, 15_001));
    let removed = store.remove_subscription("totals", &service.group, OnUnfinished::Refuse).await;
    assert_eq!(removed.expect("nothing is open").rows, 15_001);
    assert_eq!(ledger.receipts().await, 15_001);
}

/// A move that has not been committed yet knows nothing of a partition that is only now taken over: the
/// take-over waits for its end, or a watermark would stay behind in the old group.
#[tokio::test(flavor = "multi_thread")]
async fn a_take_over_waits_for_a_move() {
    let (ledger, topic, service) = scene(1).await;
    let store = store(&ledger).await;
    let mut conn = Postgres::connect(&store).await.expect("a connection");
    let registered = Postgres::register(&mut conn, &service.group, &[registration("jobs")]).await;
    let asked = TakeOver {
        group: service.group.clone(),
        topic: Topic::new(topic.name()),
        ..ownership(0, registered.expect("it is new"), 0)
    };
    ledger.execute("BEGIN").await;
    ledger.execute("UPDATE inbox.subscriptions SET consumer_group = 'elsewhere' WHERE name = 'jobs'").await;
    let mut taking = std::pin::pin!(Postgres::take_over(&mut conn, &LIMITS, &asked));
    assert!(timeout(A_WHILE, &mut taking).await.is_err(), "it did not wait");
    ledger.execute("COMMIT").await;
    let error = taking.await.expect_err("it is elsewhere");
    assert!(matches!(error, StoreError::Departed(Departed::Moved { .. })), "{error:?}");
    assert_eq!(ledger.number("SELECT count(*) FROM inbox.watermarks").await, 0);
    assert_eq!(ledger.number("SELECT count(*) FROM inbox.partitions").await, 0);
}
