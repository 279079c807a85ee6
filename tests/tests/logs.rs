//! Logs that are not what they were: made anew, cut, on another cluster, overtaken by retention (P10).
//! Each stops its partition, and nothing else, until a person accepts it.

use std::time::Duration;

use inbox_core::store::{AcceptLog, LogStart};
use inbox_core::{Offset, Partition};
use inbox_kafka::{StopReason, Stopped};
use inbox_tests::job::{Act, Job, JobSubscription};
use inbox_tests::kafka::{FreshTopic, Producer};
use inbox_tests::load::{Draft, notes, send, send_by};
use inbox_tests::oracle::{Ledger, Sent};
use inbox_tests::own_services::OwnServices;
use inbox_tests::service::Service;
use inbox_tests::wait;

/// A service that has handled 20 messages of a topic with two partitions, and of another topic.
async fn scene() -> (Ledger, FreshTopic, FreshTopic, Service) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let other = FreshTopic::create(1).await;
    let mut service = Service::new(&ledger, &topic).property("topic.metadata.refresh.interval.ms", "300");
    service.subscriptions.push(JobSubscription::new("others", other.name()));
    let sent = send(&topic, &notes("m", 20, 4, 2));
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    running.stop().await;
    ledger.assert_once_in_order("jobs", &sent).await;
    (ledger, topic, other, service)
}

/// The call that the stop names.
async fn accept(service: &Service, stopped: &Stopped, from: LogStart) -> Vec<Partition> {
    let asked = AcceptLog {
        group: stopped.group.clone(),
        topic: stopped.topic.clone(),
        partition: Some(stopped.partition),
        incarnation: stopped.incarnation,
        from,
    };
    service.store().await.expect("the database answers").accept_log(&asked).await.expect("it is accepted")
}

/// The effects of messages whose ids begin with this.
async fn of(ledger: &Ledger, prefix: &str) -> usize {
    ledger.effects().await.iter().filter(|effect| effect.id.starts_with(prefix)).count()
}

/// Stops, tells, leaves the others alone, and goes on when it is accepted: as a new log.
async fn stops_until_accepted(
    (ledger, topic, other, service): (Ledger, FreshTopic, FreshTopic, Service),
    is_it: fn(&StopReason) -> bool,
) {
    let again = send(&topic, &notes("again", 20, 4, 2));
    let running = service.start().await;
    let (first, second) = (running.stops.of(&topic, 0).await, running.stops.of(&topic, 1).await);
    assert!(is_it(&first.reason) && is_it(&second.reason), "{first:?} {second:?}");
    assert!(first.to_string().contains("accept_log"), "{first}");
    // Its member stays in the group, and another topic goes on.
    let others = send(&other, &notes("others", 10, 2, 1));
    ledger.is_finished(&other).await;
    ledger.assert_once_in_order("others", &others).await;
    assert_eq!(of(&ledger, "again").await, 0, "nothing of the other log was handled");

    for expected in [vec![Partition(0)], vec![]] {
        assert_eq!(
            accept(&service, &first, LogStart::Earliest).await,
            expected,
            "the second time it is another"
        );
    }
    wait::until("the first goes on by itself", async || of(&ledger, "again").await == 10).await;
    assert!(running.is_running());
    accept(&service, &second, LogStart::Earliest).await;
    ledger.is_finished(&topic).await;
    running.stop().await;
    assert_eq!(of(&ledger, "again").await, again.len());
    // It is the log now: a restart, and more of it, need no word.
    let _ = send(&topic, &notes("later", 10, 4, 2));
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    assert_eq!((of(&ledger, "later").await, running.stops.count()), (10, 0));
    running.stop().await;
}

/// The topic's id tells, however many records there are by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_made_anew() {
    let scene = scene().await;
    scene.1.recreate().await;
    let _ = send(&scene.1, &notes("again-before", 40, 4, 2));
    let of_another = |reason: &StopReason| matches!(reason, StopReason::OtherLog { .. });
    // Those 40 are of the new log too.
    let (ledger, topic, other, service) = scene;
    let running = service.start().await;
    let stopped = running.stops.of(&topic, 0).await;
    assert!(of_another(&stopped.reason), "{stopped:?}");
    running.stop().await;
    topic.recreate().await;
    stops_until_accepted((ledger, topic, other, service), of_another).await;
}

/// No broker told an id: the record where the last finished one was is another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_written_anew() {
    let scene = scene().await;
    scene.1.recreate().await;
    forget_ids(&scene.0).await;
    stops_until_accepted(scene, |reason| matches!(reason, StopReason::OtherRecord { .. })).await;
}

/// As an unclean leader election leaves it: the end lies below the watermark.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cut() {
    let scene = scene().await;
    // So that even with the records to come it ends below the watermark.
    let _ = send(&scene.1, &notes("more", 40, 4, 2));
    scene.3.finishes(&scene.0, &scene.1).await;
    scene.1.recreate().await;
    forget_ids(&scene.0).await;
    stops_until_accepted(
        scene,
        |reason| matches!(reason, StopReason::OutsideLog { high, watermark, .. } if high < watermark),
    )
    .await;
}

/// As if no broker had ever told one.
async fn forget_ids(ledger: &Ledger) {
    ledger.execute("UPDATE inbox.partitions SET topic_id = NULL").await;
}

/// Another cluster behind the same address.
#[tokio::test(flavor = "multi_thread")]
async fn another_cluster() {
    let (ledger, topic, other, mut service) = scene().await;
    let services = OwnServices::kafka();
    let brokers = services.brokers.clone();
    let topic_there = FreshTopic::create_named(&brokers, topic.name(), 2, &[]).await;
    let other_there = FreshTopic::create_named(&brokers, other.name(), 1, &[]).await;
    service.brokers = brokers;
    // Where nothing was consumed yet there is nothing to mistake; where something was, there is.
    ledger.execute(&format!("DELETE FROM inbox.watermarks USING inbox.partitions p WHERE p.id = partition_id AND p.topic = '{0}'; DELETE FROM inbox.partitions WHERE topic = '{0}'", other.name())).await;
    stops_until_accepted((ledger, topic_there, other_there, service), |reason| {
        matches!(reason, StopReason::OtherLog { recorded, found } if recorded.cluster != found.cluster)
    })
    .await;
}

/// A subscription without ids of its sender's: an offset of the new log is not one of the old.
#[tokio::test(flavor = "multi_thread")]
async fn ids_made_of_offsets() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let service =
        Service::new(&ledger, &topic).subscription(|subscription| subscription.id_from_offset = true);
    let _ = send(&topic, &notes("old", 10, 2, 1));
    service.finishes(&ledger, &topic).await;
    topic.recreate().await;
    let _ = send(&topic, &notes("new", 10, 2, 1));
    let running = service.start().await;
    let stopped = running.stops.of(&topic, 0).await;
    accept(&service, &stopped, LogStart::Earliest).await;
    ledger.reaches(20).await;
    running.stop().await;
    // Twice in sequence changes nothing.
    accept(&service, &stopped, LogStart::Earliest).await;
    service.finishes(&ledger, &topic).await;
    assert_eq!(ledger.count().await, 20);
}

/// Made anew under a running service: it is found out, although offsets go on above the old ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_anew_under_it() {
    let (ledger, topic, other, service) = scene().await;
    // Longer than making it anew takes: the client library then notices nothing but another id.
    let service = service.property("topic.metadata.refresh.interval.ms", "5000");
    let running = service.start().await;
    let before = send(&topic, &notes("before", 20, 4, 2));
    ledger.is_finished(&topic).await;
    topic.recreate().await;
    let after = send(&topic, &notes("after", 80, 4, 2));
    for partition in [0, 1] {
        let stopped = running.stops.of(&topic, partition).await;
        assert!(matches!(stopped.reason, StopReason::OtherLog { .. }), "{stopped:?}");
        accept(&service, &stopped, LogStart::Earliest).await;
    }
    wait::until("everything of it", async || of(&ledger, "after").await == after.len()).await;
    ledger.is_finished(&topic).await;
    let others = send(&other, &notes("others", 10, 2, 1));
    ledger.is_finished(&other).await;
    ledger.assert_once_in_order("others", &others).await;
    running.stop().await;
    let once = |prefix: &str, sent: &[Sent]| (prefix.to_owned(), sent.len());
    for (prefix, count) in [once("before", &before), once("after", &after)] {
        assert_eq!(of(&ledger, &prefix).await, count, "{prefix}");
    }
}

/// Retention has overtaken a service that did not run. The person knows what is gone, and says where
/// to go on.
#[tokio::test(flavor = "multi_thread")]
async fn records_gone_before_they_were_handled() {
    let (ledger, topic, _other, service) = scene().await;
    let lost = send(&topic, &notes("n", 40, 4, 2));
    topic.delete_below(0, 20).await;
    let running = service.start().await;
    let stopped = running.stops.of(&topic, 0).await;
    let gone = |reason: &StopReason| {
        matches!(reason, StopReason::OutsideLog { low: Offset(20), watermark: Offset(10), .. })
    };
    assert!(gone(&stopped.reason), "{stopped:?}");
    // The other partition has everything.
    wait::until("the other partition", async || of(&ledger, "n").await == 20).await;
    assert_eq!(accept(&service, &stopped, LogStart::At(Offset(25))).await, [Partition(0)]);
    ledger.is_finished(&topic).await;
    running.stop().await;
    let handled: Vec<Sent> =
        lost.into_iter().filter(|sent| sent.partition == 1 || sent.offset >= 25).collect();
    let effects = ledger.effects().await;
    assert_eq!(effects.iter().filter(|effect| effect.id.starts_with("n-")).count(), handled.len());
    assert!(handled.iter().all(|sent| effects.iter().any(|effect| effect.id == sent.id)));
}

/// Retention overtakes a service that runs: it says so instead of waiting in silence, or going on.
#[tokio::test(flavor = "multi_thread")]
async fn records_gone_while_it_runs_behind() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    // A budget of few records, all of which sleep: the rest is not fetched yet.
    let service = Service::new(&ledger, &topic)
        .property("queued.min.messages", "1")
        .property("fetch.message.max.bytes", "1000")
        .property("queued.max.messages.kbytes", "1")
        .limits(|limits| limits.max_in_flight = 2);
    let mut drafts: Vec<Draft> = Vec::new();
    for n in 0..400 {
        let acts = if n < 2 { vec![Act::Sleep(3000), Act::Note] } else { vec![Act::Note] };
        drafts.push((0, format!("m-{n}"), Job { account: "x".repeat(500), acts }));
    }
    // In batches of a few, or the first fetch would bring them all.
    let _ = send_by(&Producer::with(&topic, &[("batch.num.messages", "2")]), &drafts);
    let running = service.start().await;
    wait::until("the first runs", async || !running.runs.of("m-0").is_empty()).await;
    topic.delete_below(0, 390).await;
    let stopped = running.stops.of(&topic, 0).await;
    assert!(matches!(stopped.reason, StopReason::OutsideLog { low: Offset(390), .. }), "{stopped:?}");
    wait::stays("stopped", Duration::from_millis(500), async || ledger.count().await < 390).await;
    accept(&service, &stopped, LogStart::Earliest).await;
    ledger.is_finished(&topic).await;
    running.stop().await;
}

/// Offsets begin anew, but what waits of a key is not overtaken (P3).
#[tokio::test(flavor = "multi_thread")]
async fn what_is_parked_of_the_old_log_comes_first() {
    let (ledger, topic, _other, service) = scene().await;
    let later = Job::of("key-0", [Act::FailAndAsk(2, 20_000), Act::Note]);
    let _ = send(&topic, &[(0, "old".into(), later)]);
    let running = service.start().await;
    wait::until("it is parked", async || ledger.open().await == 1).await;
    ledger.is_passed(&topic).await;
    running.stop().await;
    topic.recreate().await;
    let _ = send(&topic, &notes("new", 4, 2, 2));
    let running = service.start().await;
    let first = running.stops.of(&topic, 0).await;
    accept(&service, &first, LogStart::Earliest).await;
    wait::until("all", async || of(&ledger, "new-0").await == 1 && of(&ledger, "old").await == 1).await;
    let ids: Vec<_> =
        ledger.effects().await.into_iter().filter(|e| e.partition == 0).skip(10).map(|e| e.id).collect();
    running.stop().await;
    assert_eq!(ids, ["old", "new-0", "new-2"]);
}
