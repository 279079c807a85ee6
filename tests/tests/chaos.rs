//! Everything at once, at random: handlers fail, processes are killed, stopped and restarted, connections cut
//! and silent, commits lost, epochs raised by others; and still each effect once, in order, none dead.
//!
//! `INBOX_TEST_CHAOS_SECONDS` says for how long (20), `INBOX_TEST_SEED` with which choices.

use std::time::{Duration, Instant};

use fastrand::Rng;
use inbox_tests::job::{Act, JobSubscription, KeyFrom};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, seed};
use inbox_tests::member::Member;
use inbox_tests::oracle::Ledger;
use inbox_tests::service::Service;
use inbox_tests::wait;

#[tokio::test(flavor = "multi_thread")]
async fn everything_at_once_in_batches() {
    everything_at_once(vec![Act::Note]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_at_once_in_sequence() {
    everything_at_once(vec![Act::Look, Act::Sleep(2), Act::Note]).await;
}

async fn everything_at_once(acts: Vec<Act>) {
    let seconds = std::env::var("INBOX_TEST_CHAOS_SECONDS").map_or(20, |s| s.parse().expect("a number"));
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(6).await);
    let mut service = Service::new(&ledger, &topic).session(Duration::from_secs(3)).limits(|limits| {
        limits.time_limit = Duration::from_secs(3);
        limits.lock_timeout = Duration::from_secs(2);
        limits.drain_limit = Duration::from_secs(5);
    });
    let ordered =
        JobSubscription { key: KeyFrom::Partition, ..JobSubscription::new("ordered", topic.name()) };
    service.subscriptions.push(ordered);
    let mut members = Vec::new();
    for name in ["first", "second", "third"] {
        let mut member = Member::new(name, &service).await;
        member.supervise();
        members.push(member);
    }
    let plan = LoadPlan { seed, keys: 60, per_second: 200, failing: 40, acts, ..LoadPlan::default() };
    let load = Load::start(&topic, plan);
    ledger.reaches(100).await;

    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep(Duration::from_millis(random.u64(100..1000))).await;
        if random.u8(0..12) == 0 {
            eprintln!("{:?}: somebody raises an epoch", since.elapsed());
            let sql = "UPDATE inbox.partitions SET epoch = gen_random_uuid() WHERE partition = $1";
            ledger.query(sql, &[&random.i32(0..6)]).await;
        }
        let at = random.usize(..members.len());
        let member = &mut members[at];
        // Half of the time it is left alone, or comes back.
        if random.bool() {
            let what = member.suffer(&mut random).await;
            eprintln!("{:?}: {} {what}", since.elapsed(), member.service.name);
        } else {
            member.proxy.restore();
            member.supervise();
        }
    }
    let sent = load.stop();
    members.iter_mut().for_each(Member::is_relieved);
    let group = service.group();
    // One that was starting while it had no database ends with an error, and is started again.
    wait::until("all are members of the group", async || {
        members.iter_mut().for_each(Member::supervise);
        group.members().len() == members.len()
    })
    .await;
    ledger.is_finished(&topic).await;
    for subscription in ["jobs", "ordered"] {
        ledger.assert_once_in_order(subscription, &sent).await;
    }
    assert_eq!(ledger.dead().await, []);
    // Whatever Kafka was not told at the time it is told in the end.
    wait::until_is("the lag", vec![0; 6], async || group.lags(&topic)).await;
    for member in members {
        member.worker.expect("it was started").stop().await;
    }
}
