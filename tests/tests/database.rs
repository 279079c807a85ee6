//! What databases do in years of operation, to a service that runs: other defaults, other isolation, too
//! few connections. Each effect once, in order, at the first attempt, and nothing dead (P1, P3, P6).

use std::time::Duration;

use inbox_tests::job::{Act, Job};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, send};
use inbox_tests::oracle::{Ledger, Sent, connect, distinct};
use inbox_tests::own_services::OwnServices;
use inbox_tests::postgres::FreshDatabase;
use inbox_tests::proxy::Proxy;
use inbox_tests::replica::Replica;
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

/// Everything once, in order, at the first attempt, and nothing dead.
async fn no_message_noticed(ledger: &Ledger, topic: &FreshTopic, sent: &[Sent]) {
    ledger.reaches(distinct(sent)).await;
    ledger.is_finished(topic).await;
    ledger.assert_once_in_order("jobs", sent).await;
    assert_eq!(ledger.receipts().await, distinct(sent));
    assert_eq!(ledger.dead().await, []);
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1), "no attempt is counted");
}

/// Defaults of the ledger's database, for connections that are made from now on.
async fn set(ledger: &Ledger, settings: &[&str]) {
    for setting in settings {
        let sql = "SELECT current_database()::text";
        let name: String = ledger.query(sql, &[]).await[0].get(0);
        ledger.execute(&format!("ALTER DATABASE {name} SET {setting}")).await;
    }
}

/// Every default that could change what a transaction means is another one. What handlers find are the
/// inbox's own; with duplicates at once in two processes, and a third that joins under load.
async fn other_defaults(isolation: &str) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(6).await);
    let isolation = format!("default_transaction_isolation = '{isolation}'");
    ledger.execute("CREATE TABLE seen (name text, value text, PRIMARY KEY (name, value))").await;
    set(
        &ledger,
        &[
            &isolation,
            "default_transaction_read_only = on",
            "default_transaction_deferrable = on",
            "synchronous_commit = off",
            "statement_timeout = 300",
            "lock_timeout = 100",
            "idle_in_transaction_session_timeout = 300",
        ],
    )
    .await;
    let look = Act::Send(
        "INSERT INTO seen SELECT name, setting FROM pg_settings WHERE name IN ('transaction_isolation', \
         'transaction_read_only', 'synchronous_commit', 'statement_timeout', 'lock_timeout', \
         'idle_in_transaction_session_timeout') ORDER BY name ON CONFLICT DO NOTHING"
            .into(),
    );
    let service = Service::new(&ledger, &topic).limits(|limits| {
        limits.time_limit = Duration::from_secs(20);
        limits.lock_timeout = Duration::from_secs(9);
    });
    let (first, second) = (Worker::start(&service), Worker::start(&service.named("second")));
    let plan = LoadPlan { resends: 4, per_second: 200, ..LoadPlan::default() };
    let load = Load::start(&topic, plan);
    let group = service.group();
    wait::until("two members", async || group.members().len() == 2).await;
    ledger.reaches(300).await;
    let third = Worker::start(&service.named("third"));
    wait::until("an effect of the third", async || {
        ledger.effects().await.iter().any(|effect| effect.worker == "third")
    })
    .await;
    second.stop().await;
    let mut sent = load.stop();
    // Longer than the defaults allow, in statements and between them.
    let slow = vec![look, Act::SleepInDatabase(600), Act::Sleep(600), Act::Note];
    sent.extend(send(&topic, &[(0, "slow".into(), Job::of("key-0", slow))]));
    no_message_noticed(&ledger, &topic, &sent).await;
    let rows = ledger.query("SELECT name || ' ' || value FROM seen ORDER BY 1", &[]).await;
    let seen: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let wanted = [
        "idle_in_transaction_session_timeout 25000",
        "lock_timeout 9000",
        "statement_timeout 20000",
        "synchronous_commit on",
        "transaction_isolation read committed",
        "transaction_read_only off",
    ];
    assert_eq!(seen, wanted);
    first.stop().await;
    third.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeatable_read_by_default() {
    other_defaults("repeatable read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serializable_by_default() {
    other_defaults("serializable").await;
}

/// An admission waits for another process that handles the same id, for longer than the server lets
/// statements run by default: the limits of the inbox hold, not those.
#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_waits_longer_than_the_servers_limit_for_statements() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(2).await);
    set(&ledger, &["statement_timeout = 200", "idle_in_transaction_session_timeout = 200"]).await;
    let service = Service::new(&ledger, &topic);
    let (first, second) = (Worker::start(&service), Worker::start(&service.named("second")));
    let mut sent = Vec::new();
    // Until each of them has a partition.
    loop {
        sent.extend(send(&topic, &notes(&format!("before-{}", sent.len()), 2, 2, 2)));
        ledger.is_finished(&topic).await;
        let effects = ledger.effects().await;
        let [.., one, other] = &effects[..] else { continue };
        if one.worker != other.worker {
            break;
        }
    }
    let job = Job::of("key", [Act::Sleep(8000), Act::Note]);
    sent.extend(send(&topic, &[(0, "twice".into(), job.clone()), (1, "twice".into(), job)]));
    let handling = "SELECT application_name FROM pg_stat_activity \
                    WHERE datname = current_database() AND state = 'idle in transaction'";
    let name: String =
        wait::some("one handles it", async || Some(ledger.query(handling, &[]).await.first()?.get(0))).await;
    // Long enough to run into the server's limit three times. Then the one that handles it is killed, and
    // the other has to.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (killed, other) = if name == "first" { (first, second) } else { (second, first) };
    killed.kill();
    ledger.is_finished(&topic).await;
    // Of two that are equal either may have been the first.
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.dead().await, []);
    other.stop().await;
}

/// With `synchronous_commit = off` a crash takes what was committed last. Not what the inbox commits.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_a_server_that_commits_asynchronously() {
    let services = OwnServices::local_postgres();
    let server = connect(&services.database).await;
    // What is committed asynchronously reaches the disk after ten seconds, not after 0.2.
    for sql in [
        "ALTER SYSTEM SET synchronous_commit = off",
        "ALTER SYSTEM SET wal_writer_delay = 10000",
        "ALTER SYSTEM SET wal_writer_flush_after = 0",
        "SELECT pg_reload_conf()",
    ] {
        server.batch_execute(sql).await.expect("a superuser may");
    }
    let mut ledger = Ledger::of(FreshDatabase::create_at(&services.database).await).await;
    let topic = FreshTopic::create(4).await;
    let service = Service::new(&ledger, &topic);
    let worker = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan::default());
    for _ in 0..2 {
        let before = ledger.count().await;
        ledger.reaches(before + 200).await;
        // Each effect with the moment in which it came about: one that is made again has another.
        let rows = "SELECT convert_from(message_id, 'UTF8') || ' ' || at::text FROM effects";
        let seen: Vec<String> = ledger.query(rows, &[]).await.iter().map(|row| row.get(0)).collect();
        services.tell("postgres-stop");
        services.tell("postgres-start");
        ledger = ledger.reconnected().await;
        let there: std::collections::HashSet<String> =
            ledger.query(rows, &[]).await.iter().map(|row| row.get(0)).collect();
        assert!(seen.iter().all(|effect| there.contains(effect)), "an effect that was committed is gone");
    }
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    assert!(!worker.log().contains("the database is older than what was committed"));
    worker.stop().await;
}

/// The address leads to a server that takes no writes for a while, as after a failover that went wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_only_reads() {
    let services = OwnServices::local_postgres();
    let ledger = Ledger::of(FreshDatabase::create_at(&services.database).await).await;
    let replica = Replica::of(&services).await;
    let (topic, proxy) = (FreshTopic::create(4).await, Proxy::to(&ledger.url()).await);
    let mut service = Service::new(&ledger, &topic);
    proxy.url().clone_into(&mut service.database);
    let worker = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan::default());
    let group = service.group();
    for round in 1..=2 {
        let before = ledger.count().await;
        ledger.reaches(before + 200).await;
        proxy.lead_to(&replica.url);
        wait::until("it pauses", async || worker.log().matches("the database is down").count() == round)
            .await;
        let paused = ledger.count().await;
        // Longer than the session, once.
        let how_long = Duration::from_secs(if round == 1 { 7 } else { 1 });
        wait::stays("paused, and a member", how_long, async || {
            ledger.count().await == paused && group.members() == ["first"]
        })
        .await;
        proxy.lead_to(&services.database);
    }
    let before = ledger.count().await;
    ledger.reaches(before + 200).await;
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    let complaints = worker.complaints();
    assert!(complaints < 20, "{complaints} warnings and errors");
    worker.stop().await;
}

/// Somebody's transaction keeps every partition from being taken over: that is tried again and again, and
/// told now and then.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_stays_open_keeps_partitions() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(8).await);
    let service = Service::new(&ledger, &topic);
    let mut sent = send(&topic, &notes("before", 40, 8, 8));
    service.finishes(&ledger, &topic).await;
    let other = connect(&ledger.url()).await;
    let hold = "BEGIN; SELECT pg_advisory_xact_lock_shared(1768841832, id) FROM inbox.partitions";
    other.batch_execute(hold).await.expect("nobody has it");
    let worker = Worker::start(&service);
    sent.extend(send(&topic, &notes("behind", 40, 8, 8)));
    let group = service.group();
    wait::until("a member", async || group.members() == ["first"]).await;
    wait::stays("nothing is handled", Duration::from_secs(12), async || ledger.count().await == 40).await;
    other.batch_execute("COMMIT").await.expect("it is well");
    no_message_noticed(&ledger, &topic, &sent).await;
    let complaints = worker.complaints();
    assert!(complaints < 6, "{complaints} warnings and errors");
    worker.stop().await;
}
