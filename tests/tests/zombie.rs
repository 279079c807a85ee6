//! P4: a process that has lost a partition cannot do anything for it once the new owner has begun.

use std::time::{Duration, Instant};

use inbox_tests::job::{Act, Job};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, seed, send};
use inbox_tests::oracle::{Ledger, distinct};
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

const SESSION: Duration = Duration::from_secs(4);
const TIME_LIMIT: Duration = Duration::from_secs(2);

fn service(ledger: &Ledger, topic: &FreshTopic) -> Service {
    Service::new(ledger, topic).session(SESSION).limits(|limits| limits.time_limit = TIME_LIMIT)
}

/// It is stopped with the effect written and its transaction open: it holds the partition's lock, and
/// the new owner waits for what the database's own limit lets it hold.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_in_the_middle_of_a_transaction() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let service = service(&ledger, &topic);
    let zombie = Worker::start(&service.named("zombie"));
    let mut sent = send(&topic, &notes("before", 20, 4, 1));
    ledger.reaches(20).await;

    let slow = Job::of("key-0", [Act::Note, Act::Sleep(1500)]);
    sent.extend(send(&topic, &[(0, "held".into(), slow)]));
    wait::until("its open transaction", async || is_in_transaction(&ledger, "zombie").await).await;
    zombie.freeze();
    let since = Instant::now();
    assert!(is_in_transaction(&ledger, "zombie").await, "it is stopped before it could commit");

    let heir = Worker::start(&service.named("heir"));
    sent.extend(send(&topic, &notes("after", 20, 4, 1)));
    ledger.reaches(41).await;
    // The session, the transaction's idle limit (5 s more than the handler's), and what it takes to
    // notice each; but not for ever, and not for TCP's idea of a dead peer.
    let bound = SESSION + TIME_LIMIT + Duration::from_secs(5 + 20);
    assert!(since.elapsed() < bound, "the new owner waited {:?}", since.elapsed());

    zombie.thaw();
    sent.extend(send(&topic, &notes("both", 200, 8, 1)));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    let effects = ledger.effects().await;
    let of_held: Vec<_> = effects.iter().filter(|effect| effect.id == "held").map(|e| &*e.worker).collect();
    assert_eq!(of_held, ["heir"], "nothing of the first lands");
    zombie.stop().await;
    heir.stop().await;
}

/// Stopped wherever it happens to be, several times.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_at_random_moments() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(4).await);
    let service = service(&ledger, &topic);
    let load = Load::start(&topic, LoadPlan { seed, per_second: 300, ..LoadPlan::default() });
    let (first, second) = (Worker::start(&service.named("first")), Worker::start(&service.named("second")));
    ledger.reaches(50).await;
    for round in 0..3 {
        let (frozen, other) = if round % 2 == 0 { (&first, "second") } else { (&second, "first") };
        tokio::time::sleep(Duration::from_millis(random.u64(0..700))).await;
        frozen.freeze();
        wait::until("the other has every partition", async || has_all(&ledger, other, 4).await).await;
        frozen.thaw();
        let before = ledger.count().await;
        ledger.reaches(before + 300).await;
    }
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.dead().await, []);
    first.stop().await;
    second.stop().await;
}

/// Two owners: somebody else raised the epoch in the database. The service finds another token than
/// its own, stops that partition, and begins again, since the group still means it.
#[tokio::test(flavor = "multi_thread")]
async fn another_epoch_in_the_database() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    let running = Service::new(&ledger, &topic).start().await;
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(100).await;
    for _ in 0..2 {
        ledger.execute("UPDATE inbox.partitions SET epoch = gen_random_uuid() WHERE partition = 0").await;
        let foreign = epoch(&ledger).await;
        let written = ledger.effects().await.iter().filter(|e| e.partition == 0).count();
        wait::until("a new claim", async || epoch(&ledger).await != foreign).await;
        wait::until("effects under it", async || {
            ledger.effects().await.iter().filter(|e| e.partition == 0).count() > written + 50
        })
        .await;
    }
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    running.stop().await;
}

/// While the epoch is another's, no transaction of ours passes: not one.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_lands_under_another_epoch() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let running = Service::new(&ledger, &topic).start().await;
    let mut sent = send(&topic, &notes("before", 50, 5, 1));
    ledger.is_finished(&topic).await;
    // From here on whatever the service does runs into this epoch first.
    ledger.execute("UPDATE inbox.partitions SET epoch = '00000000-0000-0000-0000-000000000001'").await;
    ledger
        .execute(
            "CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF (SELECT epoch FROM inbox.partitions) = '00000000-0000-0000-0000-000000000001' THEN
                     RAISE EXCEPTION 'an effect under a foreign epoch';
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER witness BEFORE INSERT ON effects FOR EACH ROW EXECUTE FUNCTION witness()",
        )
        .await;
    sent.extend(send(&topic, &notes("after", 50, 5, 1)));
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    let first_tries = ledger.effects().await.iter().all(|effect| effect.attempt == 1);
    assert!(first_tries, "the witness has seen nothing");
    running.stop().await;
}

async fn epoch(ledger: &Ledger) -> Option<String> {
    ledger.query("SELECT epoch::text FROM inbox.partitions WHERE partition = 0", &[]).await[0].get(0)
}

/// Whether a connection of this process waits for its handler in an open transaction.
async fn is_in_transaction(ledger: &Ledger, worker: &str) -> bool {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name = $1 AND state = 'idle in transaction' \
               AND state_change < clock_timestamp() - interval '50 ms'";
    ledger.query(sql, &[&worker]).await[0].get::<_, i64>(0) > 0
}

/// Whether this process had the last effects of each partition.
async fn has_all(ledger: &Ledger, worker: &str, partitions: i32) -> bool {
    let sql = "SELECT count(*) FROM (SELECT DISTINCT ON (partition) worker FROM effects ORDER BY partition, seq DESC) l \
               WHERE worker = $1";
    ledger.query(sql, &[&worker]).await[0].get::<_, i64>(0) == i64::from(partitions)
}
