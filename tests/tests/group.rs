//! The group: static members under both protocols, clients made anew, ends that never hang, storms.

use std::time::{Duration, Instant};

use inbox_kafka::Error;
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, send};
use inbox_tests::oracle::{Ledger, distinct};
use inbox_tests::own_services::OwnServices;
use inbox_tests::proxy::Proxy;
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

fn classic(service: Service) -> Service {
    service
}

async fn scene(partitions: i32, protocol: fn(Service) -> Service) -> (Ledger, FreshTopic, Service) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(partitions).await);
    let service = protocol(Service::new(&ledger, &topic));
    (ledger, topic, service)
}

fn fixed(service: &Service, id: &str) -> Service {
    service.named(id).property("group.instance.id", id)
}

/// Waits for an effect of this process among those that are still to come.
async fn works(ledger: &Ledger, worker: &str) {
    let before = ledger.count().await;
    wait::until(&format!("effects of {worker}"), async || {
        ledger.effects().await[before..].iter().any(|effect| effect.worker == worker)
    })
    .await;
}

/// A static member that was killed comes back under its id in the same process: under the consumer
/// protocol the group refuses it until the session of the dead one is over, which the client library
/// cannot survive.
#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_is_killed_and_comes_back() {
    killed_and_back(classic).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_is_killed_and_comes_back_under_the_consumer_protocol() {
    killed_and_back(Service::consumer_protocol).await;
}

async fn killed_and_back(protocol: fn(Service) -> Service) {
    let (ledger, topic, service) = scene(4, protocol).await;
    let (one, two) = (fixed(&service, "one"), fixed(&service, "two"));
    let (mut first, second) = (Worker::start(&one), Worker::start(&two));
    let load = Load::start(&topic, LoadPlan::default());
    works(&ledger, "one").await;
    works(&ledger, "two").await;
    for _ in 0..2 {
        first.kill();
        first = Worker::start(&one);
        works(&ledger, "one").await;
        assert!(first.is_running());
    }
    // And the same after it ended gracefully.
    first.stop().await;
    let first = Worker::start(&one);
    works(&ledger, "one").await;
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    first.stop().await;
    second.stop().await;
}

/// Two processes under one static id, classic: the group means the later one; the earlier one ends and
/// says why.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_under_one_static_id() {
    let (ledger, topic, service) = scene(2, classic).await;
    let first = fixed(&service, "one").start().await;
    let load = Load::start(&topic, LoadPlan::default());
    works(&ledger, "one").await;
    let second = fixed(&service, "one").start().await;
    let error = first.fails().await;
    assert!(matches!(&error, Error::OtherInstance { id } if id == "one"), "{error:?}");
    works(&ledger, "one").await;
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    second.stop().await;
}

/// Under the consumer protocol the group keeps the earlier one; the later one waits in its process, and
/// is let in when the earlier one ends. It can be told to end meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_under_one_static_id_under_the_consumer_protocol() {
    let (ledger, topic, service) = scene(2, Service::consumer_protocol).await;
    let service = fixed(&service, "one");
    let first = service.start().await;
    let load = Load::start(&topic, LoadPlan::default());
    works(&ledger, "one").await;
    let (second, third) = (service.named("two").start().await, service.named("three").start().await);
    works(&ledger, "one").await;
    works(&ledger, "one").await;
    assert!(second.is_running() && third.is_running());
    assert!(ledger.effects().await.iter().all(|effect| effect.worker == "one"));
    third.stop().await;
    first.stop().await;
    works(&ledger, "two").await;
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    second.stop().await;
}

/// What cannot be mended ends `consume` with an error that says what it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_group_refuses_for_good() {
    let (_ledger, _topic, service) = scene(1, Service::consumer_protocol).await;
    let service = service.property("group.remote.assignor", "there-is-none");
    let error = service.start().await.fails().await;
    assert!(matches!(&error, Error::Fatal(reason) if reason.contains("ssignor")), "{error:?}");
}

/// Longer than any end may take: the drain limit and what closing the client may take, and then some.
const END: Duration = Duration::from_secs(30);

async fn ends_in_time(running: inbox_tests::service::Running) {
    let since = Instant::now();
    running.stop().await;
    assert!(since.elapsed() < END, "it took {:?}", since.elapsed());
    eprintln!("it ended after {:?}", since.elapsed());
}

/// Told to end while partitions are assigned and cannot be claimed yet: somebody holds their locks.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_with_an_assignment_pending() {
    for protocol in [classic, Service::consumer_protocol] {
        let (ledger, topic, service) = scene(4, protocol).await;
        service.finishes(&ledger, &topic).await;
        hold_claims(&ledger).await;
        let running = service.start().await;
        claim_is_pending(&ledger, "first").await;
        let sent = send(&topic, &notes("m", 20, 4, 4));
        ends_in_time(running).await;
        release_claims(&ledger).await;
        service.finishes(&ledger, &topic).await;
        ledger.assert_once_in_order("jobs", &sent).await;
    }
}

/// As a transaction of somebody who has not ended yet.
async fn hold_claims(ledger: &Ledger) {
    ledger.execute("SELECT pg_advisory_lock(1768841832, id) FROM inbox.partitions").await;
}

async fn release_claims(ledger: &Ledger) {
    ledger.execute("SELECT pg_advisory_unlock_all()").await;
}

async fn claim_is_pending(ledger: &Ledger, worker: &str) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
               AND application_name = $1 AND wait_event_type = 'Lock'";
    wait::until("a claim that waits", async || ledger.query(sql, &[&worker]).await[0].get::<_, i64>(0) > 0)
        .await;
}

/// Told to end while no broker is there, and with it no coordinator.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_without_a_broker() {
    let services = OwnServices::kafka();
    let mut cases = Vec::new();
    let protocols: [fn(Service) -> Service; 2] = [classic, Service::consumer_protocol];
    for (protocol, id) in protocols.into_iter().flat_map(|it| [(it, None), (it, Some("one"))]) {
        let ledger = Ledger::new().await;
        let topic = FreshTopic::create_at(&services.brokers, 4, &[]).await;
        let service = protocol(Service::new(&ledger, &topic));
        let service = Service { brokers: services.brokers.clone(), ..service };
        let service = id.map_or(service.clone(), |id| fixed(&service, id));
        let running = service.start().await;
        let sent = send(&topic, &notes("m", 20, 4, 4));
        ledger.is_finished(&topic).await;
        cases.push((ledger, topic, service, running, sent));
    }
    services.tell("kafka-kill");
    let mut ended = Vec::new();
    for (ledger, topic, service, running, sent) in cases {
        ends_in_time(running).await;
        ended.push((ledger, topic, service, sent));
    }
    services.tell("kafka-start");
    for (ledger, topic, service, sent) in &ended {
        // Nothing twice, although nothing could be committed.
        service.finishes(ledger, topic).await;
        ledger.assert_once_in_order("jobs", sent).await;
    }
}

/// Told to end while the group waits for a member that is gone: the client library would wait with it, as
/// long as that one's session lasts.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_while_the_group_waits_for_the_dead() {
    let (ledger, topic, service) = scene(4, classic).await;
    let service = service.session(Duration::from_mins(1));
    let stays = service.named("stays").start().await;
    let dies = Worker::start(&service.named("dies"));
    let load = Load::start(&topic, LoadPlan::default());
    works(&ledger, "stays").await;
    works(&ledger, "dies").await;
    dies.kill();
    // Whoever joins makes the others join again, and one of them cannot.
    let joins = service.named("joins").start().await;
    let group = service.group();
    wait::until("a rebalance that goes on", async || group.state() == "PreparingRebalance").await;
    ends_in_time(joins).await;
    ends_in_time(stays).await;
    drop(load.stop());
}

/// Members join and leave all the time, gracefully and killed: those that stay make progress.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_rebalances() {
    storm(classic).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_rebalances_under_the_consumer_protocol() {
    storm(Service::consumer_protocol).await;
}

/// For so many seconds, if `INBOX_TEST_STORM_SECONDS` says nothing else.
const STORM: u64 = 12;

async fn storm(protocol: fn(Service) -> Service) {
    let seconds = std::env::var("INBOX_TEST_STORM_SECONDS").ok();
    let seconds = seconds.map_or(STORM, |seconds| seconds.parse().expect("a number of seconds"));
    let (ledger, topic, service) = scene(6, protocol).await;
    let stays = service.named("stays").start().await;
    let load = Load::start(&topic, LoadPlan::default());
    works(&ledger, "stays").await;
    let since = Instant::now();
    let mut rounds = 0;
    while since.elapsed() < Duration::from_secs(seconds) {
        rounds += 1;
        let before = ledger.count().await;
        let (leaves, dies) =
            (service.named("leaves").start().await, Worker::start(&service.named(&format!("dies-{rounds}"))));
        wait::until("progress while members come", async || ledger.count().await > before + 20).await;
        leaves.stop().await;
        dies.kill();
        let before = ledger.count().await;
        wait::until("progress while members go", async || ledger.count().await > before + 20).await;
    }
    assert!(stays.is_running());
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    stays.stop().await;
    eprintln!("{rounds} rounds, {} effects", ledger.count().await);
}

/// A process that cannot claim what it was given, since its database is slow or away, holds up these
/// partitions and no others: the group agrees all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_for_one_of_them() {
    for protocol in [classic, Service::consumer_protocol] {
        let (ledger, topic, service) = scene(6, protocol).await;
        let first = service.named("first").start().await;
        let load = Load::start(&topic, LoadPlan::default());
        works(&ledger, "first").await;
        let proxy = Proxy::to(&ledger.url()).await;
        let second = Service { database: proxy.url().to_owned(), ..service.named("second") };
        let second = second.start().await;
        works(&ledger, "second").await;
        proxy.cut();
        // The first goes on, and so does a third that joins now and takes partitions of both.
        works(&ledger, "first").await;
        let third = service.named("third").start().await;
        works(&ledger, "third").await;
        works(&ledger, "first").await;
        // As another leaves.
        third.stop().await;
        works(&ledger, "first").await;
        proxy.restore();
        works(&ledger, "second").await;
        let sent = load.stop();
        ledger.reaches(distinct(&sent)).await;
        ledger.is_finished(&topic).await;
        ledger.assert_once_in_order("jobs", &sent).await;
        first.stop().await;
        second.stop().await;
    }
}

/// A process that was stopped past its session raises the epoch of the partitions that it believes to
/// have, against the one that has them: the one that the group means is back after a heartbeat.
#[tokio::test(flavor = "multi_thread")]
async fn two_owners_against_each_other() {
    for protocol in [classic, Service::consumer_protocol] {
        let (ledger, topic, service) = scene(2, protocol).await;
        // What a zombie holds open costs its own limits: these seconds and five more.
        let service = service.limits(|limits| limits.time_limit = Duration::from_secs(2));
        let zombie = Worker::start(&service.named("zombie"));
        let load = Load::start(&topic, LoadPlan::default());
        works(&ledger, "zombie").await;
        let before = epochs(&ledger).await;
        zombie.freeze();
        let owner = Worker::start(&service.named("owner"));
        all_differ(&ledger, &before).await;
        works(&ledger, "owner").await;
        for _ in 0..3 {
            // What a zombie does that wakes in the middle of its claim.
            ledger.execute("UPDATE inbox.partitions SET epoch = gen_random_uuid()").await;
            let (foreign, since) = (epochs(&ledger).await, Instant::now());
            all_differ(&ledger, &foreign).await;
            eprintln!("claimed again after {:?}", since.elapsed());
            works(&ledger, "owner").await;
        }
        zombie.thaw();
        works(&ledger, "zombie").await;
        works(&ledger, "owner").await;
        let sent = load.stop();
        ledger.reaches(distinct(&sent)).await;
        ledger.is_finished(&topic).await;
        ledger.assert_once_in_order("jobs", &sent).await;
        zombie.stop().await;
        owner.stop().await;
    }
}

async fn epochs(ledger: &Ledger) -> Vec<Option<String>> {
    let rows = ledger.query("SELECT epoch::text FROM inbox.partitions ORDER BY partition", &[]).await;
    rows.iter().map(|row| row.get(0)).collect()
}

/// Each partition has another owner, or the same one anew.
async fn all_differ(ledger: &Ledger, before: &[Option<String>]) {
    wait::until("new claims", async || {
        epochs(ledger).await.iter().zip(before).all(|(now, before)| now != before)
    })
    .await;
}
