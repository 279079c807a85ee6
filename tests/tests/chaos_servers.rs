//! Everything of `chaos`, and what happens to servers and topics: brokers and databases crash,
//! connections are ended, partitions are added, members come and go.
//!
//! `INBOX_TEST_CHAOS_SECONDS` says for how long (30), `INBOX_TEST_SEED` with which choices.

use std::time::{Duration, Instant};

use fastrand::Rng;
use inbox_tests::job::Act;
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, seed};
use inbox_tests::member::Member;
use inbox_tests::oracle::Ledger;
use inbox_tests::own_services::OwnServices;
use inbox_tests::postgres::FreshDatabase;
use inbox_tests::service::Service;
use inbox_tests::wait;

#[tokio::test(flavor = "multi_thread")]
async fn everything_at_once_and_the_servers() {
    let seconds = std::env::var("INBOX_TEST_CHAOS_SECONDS").map_or(30, |s| s.parse().expect("a number"));
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let services = OwnServices::both();
    let mut ledger = Ledger::of(FreshDatabase::create_at(&services.database).await).await;
    let mut topic = FreshTopic::create_at(&services.brokers, 6, &[]).await;
    let service = service(&ledger, &topic, &services, &mut random);
    let mut members = Vec::new();
    for name in ["first", "second", "third"] {
        let fixed = random.bool().then(|| service.clone().property("group.instance.id", name));
        let mut member = Member::new(name, &fixed.unwrap_or(service.clone())).await;
        member.supervise();
        members.push(member);
    }
    let acts = if random.bool() { vec![Act::Note] } else { vec![Act::Look, Act::Sleep(2), Act::Note] };
    let plan = LoadPlan { seed, keys: 60, per_second: 200, failing: 40, acts, ..LoadPlan::default() };
    let load = Load::start(&topic, plan);
    ledger.reaches(100).await;

    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep(Duration::from_millis(random.u64(100..1000))).await;
        let what = match random.u8(0..24) {
            0 => {
                services.tell("kafka-kill");
                tokio::time::sleep(Duration::from_millis(random.u64(0..2000))).await;
                services.tell("kafka-start");
                "the broker crashed"
            }
            1 | 2 => {
                services.tell("postgres-stop");
                tokio::time::sleep(Duration::from_millis(random.u64(0..2000))).await;
                services.tell("postgres-start");
                ledger = ledger.reconnected().await;
                "the database crashed"
            }
            3 | 4 => {
                ledger.execute(END_CONNECTIONS).await;
                "connections were ended"
            }
            5 if topic.partitions() < 9 => {
                topic.grow(topic.partitions() + 1).await;
                "a partition was added"
            }
            6 => {
                ledger
                    .execute("UPDATE inbox.partitions SET epoch = gen_random_uuid() WHERE random() < 0.3")
                    .await;
                "epochs were raised"
            }
            7..16 => {
                let at = random.usize(..members.len());
                members[at].suffer(&mut random).await
            }
            _ => {
                let at = random.usize(..members.len());
                members[at].proxy.restore();
                members[at].supervise();
                "somebody was relieved"
            }
        };
        eprintln!("{:?}: {what}", since.elapsed());
    }
    let sent = load.stop();
    members.iter_mut().for_each(Member::is_relieved);
    wait::until("everything is finished", async || {
        // One that was starting while it had no database ends with an error, and is started again.
        members.iter_mut().for_each(Member::supervise);
        let watermarks = ledger.watermarks(&topic).await;
        watermarks.iter().map(|(watermark, _)| *watermark).eq(topic.ends()) && ledger.open().await == 0
    })
    .await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.dead().await, []);
    let group = service.group();
    wait::until_is("the lag", 0, async || group.lag(&topic)).await;
    for member in members {
        member.worker.expect("it was started").stop().await;
    }
    eprintln!("{} sent, {} effects", sent.len(), ledger.count().await);
}

/// Some of those of the services, whatever they are doing.
const END_CONNECTIONS: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
    WHERE datname = current_database() AND application_name IN ('first', 'second', 'third') AND random() < 0.5";

fn service(ledger: &Ledger, topic: &FreshTopic, services: &OwnServices, random: &mut Rng) -> Service {
    let service = Service::new(ledger, topic).session(Duration::from_secs(3)).limits(|limits| {
        limits.time_limit = Duration::from_secs(3);
        limits.lock_timeout = Duration::from_secs(2);
        limits.drain_limit = Duration::from_secs(5);
    });
    let service = Service { brokers: services.brokers.clone(), ..service };
    let service = service.property("topic.metadata.refresh.interval.ms", "1000");
    if random.bool() { service.consumer_protocol() } else { service }
}
