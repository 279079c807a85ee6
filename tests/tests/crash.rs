//! P1, P2, P3 and P10 across the ends of a process, abrupt and graceful.

use std::time::{Duration, Instant};

use inbox_tests::job::{Act, Job};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, seed, send};
use inbox_tests::oracle::{Ledger, distinct};
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_in_batches() {
    killed_at_random_moments(vec![Act::Note], 6).await;
}

/// A handler of two statements runs in sequence: another way through the lanes.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_in_sequence() {
    killed_at_random_moments(vec![Act::Look, Act::Sleep(2), Act::Note], 6).await;
}

/// A static member goes on at once, so that each life sees work.
async fn killed_at_random_moments(acts: Vec<Act>, kills: usize) {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(4).await);
    let service = Service::new(&ledger, &topic).property("group.instance.id", "static");
    let load = Load::start(&topic, LoadPlan { seed, acts, ..LoadPlan::default() });
    for life in 0..kills {
        let before = ledger.count().await;
        let worker = Worker::start(&service.named(&format!("life-{life}")));
        ledger.reaches(before + 1).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..1200))).await;
        worker.kill();
    }
    let sent = load.stop();
    let worker = Worker::start(&service.named("last"));
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.receipts().await, distinct(&sent));
    assert_eq!(ledger.dead().await, []);
    worker.stop().await;
}

/// Offsets in Kafka were set back, as a person does or as a broker that lost them: the database knows
/// where to go on.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_offsets_again_because_kafka_forgot() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let mut sent = send(&topic, &notes("m", 300, 10, 2));
    ledger.reaches(300).await;
    running.stop().await;

    service.group().reset(&topic, 0);
    let running = service.start().await;
    // Also where nothing new comes Kafka is told again what it had forgotten.
    let group = service.group();
    wait::until_is("the lag", 0, async || group.lag(&topic)).await;
    sent.extend(send(&topic, &notes("later", 50, 10, 2)));
    ledger.reaches(350).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(running.runs.of("m-0").is_empty(), "consumption begins at the watermark");
    running.stop().await;
}

/// The watermark went back too: every record comes again, and the receipts refuse it.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_offsets_again_because_the_watermark_went_back() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let mut sent = send(&topic, &notes("m", 300, 10, 2));
    ledger.reaches(300).await;
    running.stop().await;

    ledger.execute("UPDATE inbox.watermarks SET watermark = first_watermark").await;
    let running = service.start().await;
    sent.extend(send(&topic, &notes("later", 50, 10, 2)));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(running.runs.of("m-0").is_empty(), "a receipt refuses before the handler is called");
    running.stop().await;
}

/// Graceful, with nothing in flight: no lag, and nothing comes again.
#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_leaves_no_lag() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(3).await);
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let mut sent = send(&topic, &notes("m", 300, 10, 3));
    ledger.reaches(300).await;
    running.stop().await;

    let group = service.group();
    assert_eq!(group.lag(&topic), 0);
    assert_eq!(group.members(), [""; 0], "it has left");
    committed_as_written(&ledger, &service, &topic).await;

    let running = service.start().await;
    sent.extend(send(&topic, &notes("later", 30, 10, 3)));
    ledger.reaches(330).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(running.runs.of("m-299").is_empty());
    running.stop().await;
    committed_as_written(&ledger, &service, &topic).await;
}

/// Graceful in the middle: what runs ends, the rest stays for the next process, and Kafka has exactly
/// what the database has.
#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_under_load() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(3).await);
    let service = Service::new(&ledger, &topic);
    let load = Load::start(&topic, LoadPlan { acts: vec![Act::Sleep(3), Act::Note], ..LoadPlan::default() });
    for life in 0..4 {
        let before = ledger.count().await;
        let worker = Worker::start(&service.named(&format!("life-{life}")));
        ledger.reaches(before + 100).await;
        worker.stop().await;
        committed_as_written(&ledger, &service, &topic).await;
        let below: i64 = ledger.watermarks(&topic).await.iter().map(|(watermark, _)| watermark).sum();
        let receipts = i64::try_from(ledger.receipts().await).expect("few");
        assert!(below >= receipts, "what had its effect lies below the watermark: {below} of {receipts}");
    }
    let sent = load.stop();
    let running = service.start().await;
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// What waits in the lanes at a graceful end was not run, and is not finished.
#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_with_much_waiting() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic).limits(|limits| (limits.lanes, limits.max_batch) = (2, 1));
    let mut drafts = notes("m", 300, 30, 2);
    for (_, _, job) in &mut drafts {
        job.acts = vec![Act::Sleep(20), Act::Note];
    }
    let sent = send(&topic, &drafts);
    let running = service.start().await;
    ledger.reaches(20).await;
    running.stop().await;
    assert!(ledger.count().await < sent.len(), "nothing waited");
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// P5: a handler that does not come back holds the end up for as long as it is allowed to, and what it
/// did not finish is the next process's.
#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_while_a_handler_hangs() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic).limits(|limits| limits.drain_limit = Duration::from_secs(1));
    let running = service.start().await;
    let mut sent = send(&topic, &notes("m", 40, 8, 2));
    ledger.reaches(40).await;
    sent.extend(send(&topic, &[(0, "slow".into(), Job::of("key-0", [Act::Note, Act::Sleep(10_000)]))]));
    sent.extend(send(&topic, &notes("behind", 8, 8, 2)));
    wait::until("it runs", async || !running.runs.of("slow").is_empty()).await;
    let since = Instant::now();
    running.stop().await;
    assert!(since.elapsed() < Duration::from_secs(8), "the end took {:?}", since.elapsed());

    let slow = ledger.number("SELECT count(*) FROM effects WHERE message_id = 'slow'").await;
    assert_eq!(slow, 0, "it was given up");
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// P10: Kafka has the watermark, with the flush number beside it.
async fn committed_as_written(ledger: &Ledger, service: &Service, topic: &FreshTopic) {
    let written: Vec<_> = ledger
        .watermarks(topic)
        .await
        .into_iter()
        .map(|(watermark, number)| Some((watermark, number.to_string())))
        .collect();
    assert_eq!(service.group().committed(topic), written);
}

/// A service whose future is dropped, as in a `select!`, loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_loses_nothing() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let service = Service::new(&ledger, &topic);
    let load = Load::start(&topic, LoadPlan::default());
    for _ in 0..3 {
        let before = ledger.count().await;
        let running = service.start().await;
        ledger.reaches(before + 50).await;
        running.abort();
    }
    let sent = load.stop();
    let running = service.start().await;
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
    let group = service.group();
    wait::until_is("the members", Vec::<String>::new(), async || group.members()).await;
}
