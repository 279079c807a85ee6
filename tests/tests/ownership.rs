//! Who consumes what, from where: rebalances, rules, several subscriptions and topics, and the ends of
//! the log.

use std::time::Duration;

use inbox_kafka::Error;
use inbox_tests::handlers::{Choosy, Mourner};
use inbox_tests::job::{Act, Job, JobSubscription, KeyFrom, Runs};
use inbox_tests::kafka::{FreshTopic, Outgoing, Producer};
use inbox_tests::load::{Draft, Load, LoadPlan, notes, send, send_by};
use inbox_tests::oracle::{Ledger, Sent, distinct};
use inbox_tests::service::Service;
use inbox_tests::wait;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

async fn scene(partitions: i32) -> (Ledger, FreshTopic) {
    (Ledger::new().await, FreshTopic::create(partitions).await)
}

/// Waits until each of these services had the last effect of some partition.
async fn share(ledger: &Ledger, names: &[&str]) {
    wait::until("each has partitions", async || {
        let sql = "SELECT DISTINCT worker FROM \
                   (SELECT DISTINCT ON (partition) worker FROM effects ORDER BY partition, seq DESC) last ORDER BY 1";
        let owners: Vec<String> = ledger.query(sql, &[]).await.iter().map(|row| row.get(0)).collect();
        owners == names
    })
    .await;
}

/// Handlers run longer than a revoke waits for them: their transactions end as they would have, and
/// the partition comes back while they run.
#[tokio::test(flavor = "multi_thread")]
async fn revoked_and_given_back_while_units_run() {
    revoked_and_given_back(Duration::from_millis(100)).await;
}

/// The revoke waits for them.
#[tokio::test(flavor = "multi_thread")]
async fn revoked_and_given_back_when_units_have_ended() {
    revoked_and_given_back(Duration::from_secs(20)).await;
}

async fn revoked_and_given_back(drain_limit: Duration) {
    let (ledger, topic) = scene(4).await;
    let service = Service::new(&ledger, &topic).limits(|limits| {
        limits.drain_limit = drain_limit;
        limits.max_batch = 4;
    });
    let load = Load::start(
        &topic,
        LoadPlan { per_second: 40, acts: vec![Act::Note, Act::Sleep(300)], ..LoadPlan::default() },
    );
    let first = service.start().await;
    ledger.reaches(20).await;
    for _ in 0..3 {
        let second = service.named("second").start().await;
        share(&ledger, &["first", "second"]).await;
        second.stop().await;
        share(&ledger, &["first"]).await;
    }
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert!(
        ledger.effects().await.iter().all(|effect| effect.attempt == 1),
        "nothing counts against a message"
    );
    first.stop().await;
}

/// The consumer polls while a handler runs, so that the group keeps its member.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_longer_than_the_poll_interval() {
    longer_than_the_poll_interval(Act::Sleep(9000)).await;
}

/// The same for one that holds up its thread.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_handler_longer_than_the_poll_interval() {
    longer_than_the_poll_interval(Act::Block(9000)).await;
}

async fn longer_than_the_poll_interval(long: Act) {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic)
        .property("max.poll.interval.ms", "6000")
        .limits(|limits| limits.drain_limit = Duration::from_secs(3));
    let running = service.start().await;
    let mut sent = send(&topic, &notes("before", 10, 5, 1));
    ledger.reaches(10).await;
    sent.extend(send(&topic, &[(0, "long".into(), Job::of("key-0", [long, Act::Note]))]));
    wait::until("it runs", async || !running.runs.of("long").is_empty()).await;
    let group = service.group();
    wait::stays("a member", Duration::from_millis(8500), async || group.members() == ["first"]).await;
    ledger.reaches(11).await;
    sent.extend(send(&topic, &notes("after", 10, 5, 1)));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(running.runs.of("long"), [1]);
    running.stop().await;
}

/// KIP-848: the broker assigns.
#[tokio::test(flavor = "multi_thread")]
async fn the_consumer_protocol() {
    let (ledger, topic) = scene(4).await;
    let service = Service::new(&ledger, &topic).consumer_protocol();
    let first = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(50).await;
    let second = service.named("second").start().await;
    share(&ledger, &["first", "second"]).await;
    second.stop().await;
    share(&ledger, &["first"]).await;
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    first.stop().await;
    assert_eq!(service.group().lag(&topic), 0);
}

/// While an old member with an eager strategy is in the group, nobody can agree with it; when it has
/// left, the service goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_eager_member_of_the_same_group() {
    let (ledger, topic) = scene(2).await;
    let service = Service::new(&ledger, &topic);
    let eager: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &service.brokers)
        .set("group.id", &service.group)
        .set("client.id", "eager")
        .set("partition.assignment.strategy", "range")
        .create()
        .expect("a consumer");
    eager.subscribe(&[topic.name()]).expect("it subscribes");
    let group = service.group();
    wait::until("the eager member", async || {
        drop(eager.poll(Duration::ZERO));
        group.members() == ["eager"]
    })
    .await;

    let running = service.start().await;
    let sent = send(&topic, &notes("m", 40, 8, 2));
    wait::stays("nothing is consumed beside it", Duration::from_secs(2), async || {
        drop(eager.poll(Duration::ZERO));
        ledger.count().await == 0 && running.is_running()
    })
    .await;
    drop(eager);
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

async fn refused(service: &Service, words: &[&str]) -> Error {
    let inbox = service.jobs(&Runs::default()).await;
    let error = service.start_with(inbox, Runs::default()).fails().await;
    for word in words {
        assert!(error.to_string().contains(word), "{error} does not say {word:?}");
    }
    error
}

/// A changed rule, or another group, would see old messages again: refused, and nothing is touched.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_recorded_is_kept_to() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let mut sent = send(&topic, &notes("m", 20, 5, 1));
    ledger.is_finished(&topic).await;
    // Also while it runs, as in a rolling deploy.
    let other_key = service.clone().subscription(|s| s.key = KeyFrom::Account);
    refused(&other_key, &["jobs", "key = record", "payload(account)", "new subscription name"]).await;
    let other_id = service.clone().subscription(|s| s.id_from_offset = true);
    refused(&other_id, &["jobs", "id = header(event-id)", "offset"]).await;
    let other_group = Service { group: "another-group".into(), ..service.clone() };
    refused(&other_group, &["jobs", &service.group, "another-group"]).await;

    sent.extend(send(&topic, &notes("later", 20, 5, 1)));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// Each has its own receipts and watermark: what one has finished, it does not see again because the
/// other has not.
#[tokio::test(flavor = "multi_thread")]
async fn two_subscriptions_to_one_topic() {
    let (ledger, topic) = scene(1).await;
    ledger.execute("CREATE TABLE knob (n integer); INSERT INTO knob VALUES (0)").await;
    let mut service = Service::new(&ledger, &topic);
    service
        .subscriptions
        .push(JobSubscription { key: KeyFrom::Partition, ..JobSubscription::new("others", topic.name()) });
    let running = service.start().await;
    let sent = send(&topic, &notes("m", 50, 5, 1));
    ledger.reaches(100).await;
    ledger.is_finished(&topic).await;
    running.stop().await;

    // Of one nothing is finished any more, of the other everything.
    let of_others = "(SELECT id FROM inbox.subscriptions WHERE name = 'others')";
    ledger
        .execute(&format!(
            "UPDATE inbox.watermarks SET watermark = 0 WHERE subscription_id = {of_others};
             DELETE FROM inbox.messages WHERE subscription_id = {of_others};
             DELETE FROM effects WHERE subscription = 'others';
             DELETE FROM inbox.messages WHERE subscription_id <> {of_others}"
        ))
        .await;
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    ledger.assert_once_in_order("others", &sent).await;
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 0);
}

/// A subscription that is added later begins at the beginning, although its group is at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_added_later() {
    let (ledger, topic) = scene(2).await;
    let mut service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let mut sent = send(&topic, &notes("m", 50, 5, 2));
    ledger.is_finished(&topic).await;
    running.stop().await;
    service.subscriptions.push(JobSubscription::new("later", topic.name()));
    let running = service.start().await;
    sent.extend(send(&topic, &notes("n", 50, 5, 2)));
    ledger.reaches(200).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    ledger.assert_once_in_order("later", &sent).await;
    assert!(ledger.effects().await.iter().filter(|effect| effect.subscription == "jobs").count() == 100);
    running.stop().await;
}

/// Dedup is the subscription's, whatever topic a message comes by.
#[tokio::test(flavor = "multi_thread")]
async fn one_subscription_to_two_topics() {
    let (ledger, topic) = scene(2).await;
    let other = FreshTopic::create(1).await;
    let service = Service::new(&ledger, &topic).subscription(|s| s.topics.push(other.name().into()));
    let running = service.start().await;
    let mut sent = send(&topic, &notes("m", 100, 10, 2));
    sent.extend(send(&other, &notes("m", 150, 10, 1)));
    sent.extend(send(&topic, &notes("n", 50, 10, 2)));
    ledger.is_finished(&topic).await;
    ledger.is_finished(&other).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
    assert_eq!((service.group().lag(&topic), service.group().lag(&other)), (0, 0));
}

/// What a filter rejects leaves no row, and the watermark passes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_ignores_without_a_row() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let handler = Choosy { subscription: service.subscriptions[0].clone() };
    let running = service.start_with(service.inbox().await.handle(handler), Runs::default());
    let skipped = |id: &str| {
        let mut record = Job::note("key-0").outgoing(0, id);
        record.headers.push(("skip".into(), Some(b"yes".to_vec())));
        record
    };
    // Among others, then what could not even be decoded, then a stretch of nothing else.
    let producer = Producer::new(&topic);
    let sent = send_by(&producer, &notes("m", 10, 5, 1));
    let _ =
        producer.send(&[skipped("a"), skipped("b"), Outgoing { value: Some(b"{".to_vec()), ..skipped("c") }]);
    let _ = producer.send(&(0..500).map(|n| skipped(&format!("s-{n}"))).collect::<Vec<_>>());
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!((ledger.receipts().await, ledger.dead().await), (10, vec![]));
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 0);
}

/// Where tombstones mean something they are messages like others, in the order of their key.
#[tokio::test(flavor = "multi_thread")]
async fn tombstones_are_messages_where_the_payload_is_an_option() {
    let (ledger, topic) = scene(1).await;
    let service = Service::new(&ledger, &topic);
    let handler = Mourner { name: "customers", topic: topic.name().into() };
    let running = service.start_with(service.inbox().await.handle(handler), Runs::default());
    let records: Vec<_> = (0..60)
        .map(|n| {
            let record = Job::note(&format!("key-{}", n % 4)).outgoing(0, &format!("m-{n}"));
            Outgoing { value: record.value.filter(|_| n % 3 != 0), ..record }
        })
        .collect();
    let _ = Producer::new(&topic).send(&records);
    ledger.is_finished(&topic).await;
    let effects = ledger.effects().await;
    assert_eq!(effects.iter().filter(|effect| effect.subscription == "customers.gone").count(), 20);
    let sent: Vec<_> = (0..60).map(|n| Sent { id: format!("m-{n}"), partition: 0, offset: n }).collect();
    let mistakes = inbox_tests::oracle::mistakes(&effects.iter().collect::<Vec<_>>(), &sent);
    assert!(mistakes.is_empty(), "{mistakes}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_without_a_key_have_no_order_to_keep() {
    let (ledger, topic) = scene(2).await;
    let running = Service::new(&ledger, &topic).start().await;
    let failing = Job::of("a", [Act::FailAndAsk(2, 3000), Act::Note]);
    let mut records: Vec<Outgoing> =
        notes("m", 100, 10, 2).iter().map(|(p, id, job)| job.outgoing(*p, id)).collect();
    records.insert(0, failing.outgoing(0, "failing"));
    for record in &mut records {
        record.key = None;
    }
    let _ = Producer::new(&topic).send(&records);
    ledger.reaches(101).await;
    ledger.is_finished(&topic).await;
    let effects = ledger.effects().await;
    assert_eq!((effects.len(), effects.iter().filter(|effect| effect.key.is_none()).count()), (101, 101));
    assert_eq!(effects[100].id, "failing", "nobody waited for it");
    running.stop().await;
}

/// One key for the whole partition: everything in it is in order, also across a failure.
#[tokio::test(flavor = "multi_thread")]
async fn the_partition_as_the_key() {
    let (ledger, topic) = scene(2).await;
    let service = Service::new(&ledger, &topic).subscription(|s| s.key = KeyFrom::Partition);
    let running = service.start().await;
    let mut drafts: Vec<Draft> = notes("m", 200, 20, 2);
    drafts.insert(50, (0, "failing".into(), Job::of("z", [Act::FailUntil(4), Act::Note])));
    let sent = send(&topic, &drafts);
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    for partition in 0..2 {
        let effects = ledger.effects().await;
        let offsets: Vec<_> = effects.iter().filter(|e| e.partition == partition).map(|e| e.offset).collect();
        assert!(offsets.is_sorted(), "{offsets:?}");
    }
    running.stop().await;
}

/// P5: with a budget far below the backlog, and below a batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_far_above_the_budget() {
    let (ledger, topic) = scene(3).await;
    let sent = send(&topic, &notes("m", 3000, 50, 3));
    let service = Service::new(&ledger, &topic).limits(|limits| limits.max_in_flight = 40);
    let running = service.start().await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// The same while one message holds the watermark down: its partition stops at its budget, the
/// others go on, and so does it when the message is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_used_up_by_one_message() {
    let (ledger, topic) = scene(2).await;
    ledger.execute("CREATE TABLE knob (n integer); INSERT INTO knob VALUES (0)").await;
    let service = Service::new(&ledger, &topic).limits(|limits| {
        limits.max_in_flight = 100;
        // It must not be parked: then the watermark passes it.
        limits.in_place = 1000;
    });
    let mut drafts =
        vec![(0, "bad".into(), Job::of("bad", [Act::Send("SELECT 1 / n FROM knob".into()), Act::Note]))];
    drafts.extend(notes("m", 1000, 10, 2));
    let sent = send(&topic, &drafts);
    let running = service.start().await;
    // The whole budget at most: as long as the other partition is not owned, this one has it all.
    wait::until("the other partition", async || per_partition(&ledger).await.1 == 500).await;
    wait::stays("the budget", Duration::from_secs(1), async || per_partition(&ledger).await.0 < 100).await;
    ledger.execute("UPDATE knob SET n = 1").await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

async fn per_partition(ledger: &Ledger) -> (i64, i64) {
    let sql =
        "SELECT count(*) FILTER (WHERE partition = 0), count(*) FILTER (WHERE partition = 1) FROM effects";
    let row = &ledger.query(sql, &[]).await[0];
    (row.get(0), row.get(1))
}
