//! P6: an outage of the database burns no attempt and makes no dead letter; the service waits, keeps
//! its place in the group, and goes on by itself.

use std::time::Duration;

use inbox_tests::job::{Act, Job};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, seed, send};
use inbox_tests::oracle::{Ledger, Sent, distinct};
use inbox_tests::proxy::Proxy;
use inbox_tests::service::{Running, Service};
use inbox_tests::wait;

/// A service whose database can be cut off.
async fn scene(partitions: i32) -> (Ledger, FreshTopic, Proxy, Service) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(partitions).await);
    let proxy = Proxy::to(&ledger.url()).await;
    let mut service = Service::new(&ledger, &topic);
    proxy.url().clone_into(&mut service.database);
    (ledger, topic, proxy, service)
}

/// Everything once, in order, at the first attempt, and nothing dead.
async fn no_message_noticed(ledger: &Ledger, topic: &FreshTopic, sent: &[Sent]) {
    ledger.is_finished(topic).await;
    ledger.assert_once_in_order("jobs", sent).await;
    assert_eq!(ledger.dead().await, []);
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1), "no attempt is counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_goes_and_comes_back() {
    let (ledger, topic, proxy, service) = scene(4).await;
    let running = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(200).await;
    let group = service.group();
    for _ in 0..2 {
        proxy.cut();
        // Longer than the session: it is the heartbeats that keep the member.
        wait::stays("a member", Duration::from_secs(7), async || group.members() == ["first"]).await;
        let before = ledger.count().await;
        proxy.restore();
        ledger.reaches(before + 300).await;
    }
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    running.stop().await;
    assert_eq!(service.group().lag(&topic), 0);
}

/// Short outages one after the other: they meet claims, flushes and batches at every stage.
#[tokio::test(flavor = "multi_thread")]
async fn many_short_outages() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (ledger, topic, proxy, service) = scene(16).await;
    let running = service.start().await;
    let load = Load::start(&topic, LoadPlan { seed, keys: 160, ..LoadPlan::default() });
    ledger.reaches(100).await;
    for _ in 0..25 {
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(random.u64(0..300))).await;
        proxy.restore();
        tokio::time::sleep(Duration::from_millis(random.u64(0..700))).await;
    }
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    running.stop().await;
}

/// The same with slow handlers in sequence, which are cut in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn short_outages_in_the_middle_of_handlers() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (ledger, topic, proxy, service) = scene(4).await;
    let running = service.start().await;
    let acts = vec![Act::Look, Act::Sleep(10), Act::Note, Act::Sleep(10)];
    let load = Load::start(&topic, LoadPlan { seed, per_second: 100, acts, ..LoadPlan::default() });
    ledger.reaches(50).await;
    for _ in 0..15 {
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(random.u64(0..200))).await;
        proxy.restore();
        tokio::time::sleep(Duration::from_millis(random.u64(100..900))).await;
    }
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    running.stop().await;
}

/// Connections end one by one while the database is healthy: nothing is down, and no message is to
/// blame.
#[tokio::test(flavor = "multi_thread")]
async fn connections_lost_at_random() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(4).await);
    let service = Service::new(&ledger, &topic);
    let running = service.start().await;
    let load = Load::start(&topic, LoadPlan { seed, ..LoadPlan::default() });
    ledger.reaches(100).await;
    let mut ended = 0;
    for _ in 0..60 {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND application_name = 'first' ORDER BY random() LIMIT 1";
        ended += ledger.query(sql, &[]).await.len();
        tokio::time::sleep(Duration::from_millis(random.u64(0..200))).await;
    }
    assert!(ended > 30, "only {ended} connections were there to be ended");
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    running.stop().await;
}

/// The server takes no new connection, and so no probe, while those that are there work: whoever
/// drops a message because the database is down must not go on with what is behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_new_connections() {
    let (ledger, topic, proxy, service) = scene(1).await;
    ledger.execute("CREATE TABLE knob (n integer); INSERT INTO knob VALUES (0)").await;
    let service = service.subscription(|s| s.max_batch = Some(1)).limits(|limits| limits.lanes = 1);
    let running = service.start().await;
    let mut sent = send(&topic, &notes("before", 10, 1, 1));
    // Every connection is there: also the one that writes watermarks.
    ledger.is_finished(&topic).await;
    proxy.refuse_new();
    let unclear = Act::Send("SELECT 1 / n FROM knob".into());
    let mut drafts = vec![(0, "bad".into(), Job::of("key-0", [unclear, Act::Note]))];
    drafts.extend(notes("behind", 50, 1, 1));
    sent.extend(send(&topic, &drafts));
    wait::until("it runs", async || !running.runs.of("bad").is_empty()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(ledger.count().await, 10, "nothing overtakes");
    ledger.execute("UPDATE knob SET n = 1").await;
    proxy.restore();
    no_message_noticed(&ledger, &topic, &sent).await;
    running.stop().await;
}

/// Nothing passes any more, and nobody says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_network() {
    let (ledger, topic, proxy, service) = scene(2).await;
    let service = service.limits(|limits| limits.time_limit = Duration::from_secs(3));
    let running = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(100).await;
    proxy.silence();
    let group = service.group();
    wait::stays("a member", Duration::from_secs(8), async || group.members() == ["first"]).await;
    let before = ledger.count().await;
    proxy.restore();
    ledger.reaches(before + 200).await;
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    running.stop().await;
}

/// Its connections are dead and nobody says so, as behind a firewall that has forgotten them; the
/// database itself is well. The service finds out within its own limits, not within TCP's.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_silent_for_ever() {
    let (ledger, topic, proxy, service) = scene(2).await;
    let service = service.limits(|limits| limits.time_limit = Duration::from_secs(3));
    let running = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(100).await;
    proxy.forget_connections();
    let before = ledger.count().await;
    ledger.reaches(before + 400).await;
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    // A handler whose statement is never answered runs into its time limit, which is its own.
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt <= 2));
    running.stop().await;
}

/// The group moves partitions while the database is away: they are claimed when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_rebalance_during_an_outage() {
    let (ledger, topic, proxy, service) = scene(4).await;
    let first = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(100).await;
    // Made before the outage, or it could not start.
    let second = service.named("second");
    let inbox = second.jobs(&inbox_tests::job::Runs::default()).await;
    let second: Running = second.start_with(inbox, inbox_tests::job::Runs::default());
    let group = service.group();
    wait::until("both", async || group.members() == ["first", "second"]).await;
    proxy.cut();
    let third = Service { database: ledger.url(), ..service.named("third") }.start().await;
    wait::until("all three", async || group.members() == ["first", "second", "third"]).await;
    // The third can reach the database and has its part; the parts of the others wait.
    wait::until("effects of the third", async || {
        ledger.effects().await.iter().any(|effect| effect.worker == "third")
    })
    .await;
    proxy.restore();
    for name in ["first", "second"] {
        let before = ledger.count().await;
        wait::until("effects of each", async || {
            ledger.effects().await[before..].iter().any(|effect| effect.worker == name)
        })
        .await;
    }
    second.stop().await;
    third.stop().await;
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    first.stop().await;
}

/// Told to end while the database is away, it ends within its drain limit; the next one finishes.
#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_during_an_outage() {
    let (ledger, topic, proxy, service) = scene(2).await;
    let service = service.limits(|limits| limits.drain_limit = Duration::from_secs(3));
    let running = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(100).await;
    proxy.cut();
    let stopping = std::time::Instant::now();
    running.stop().await;
    assert!(stopping.elapsed() < Duration::from_secs(20), "it took {:?}", stopping.elapsed());
    proxy.restore();
    let mut sent = load.stop();
    let running = service.start().await;
    sent.extend(send(&topic, &notes("later", 50, 10, 2)));
    no_message_noticed(&ledger, &topic, &sent).await;
    running.stop().await;
}
