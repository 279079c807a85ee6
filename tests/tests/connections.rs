//! P6: a server that has no room for connections, for a while or for good; and connections that it ends.

use std::time::Duration;

use inbox_tests::job::Act;
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan, notes, seed, send};
use inbox_tests::oracle::{Ledger, Sent, distinct};
use inbox_tests::service::Service;
use inbox_tests::worker::Worker;
use uuid::Uuid;

/// Everything once, in order, at the first attempt, and nothing dead.
async fn no_message_noticed(ledger: &Ledger, topic: &FreshTopic, sent: &[Sent]) {
    ledger.reaches(distinct(sent)).await;
    ledger.is_finished(topic).await;
    ledger.assert_once_in_order("jobs", sent).await;
    assert_eq!(ledger.receipts().await, distinct(sent));
    assert_eq!(ledger.dead().await, []);
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1), "no attempt is counted");
}

/// A role that may do everything, with a limit of connections. Superusers have none.
struct Role<'l> {
    ledger: &'l Ledger,
    name: String,
}

impl<'l> Role<'l> {
    async fn new(ledger: &'l Ledger) -> Self {
        let name = format!("inbox_test_{}", Uuid::new_v4().simple());
        ledger
            .execute(&format!(
                "CREATE ROLE {name} LOGIN; \
                 GRANT ALL ON SCHEMA inbox TO {name}; GRANT ALL ON ALL TABLES IN SCHEMA inbox, public TO {name}; \
                 GRANT ALL ON ALL SEQUENCES IN SCHEMA inbox, public TO {name}"
            ))
            .await;
        Self { ledger, name }
    }

    async fn limit(&self, connections: i32) {
        self.ledger.execute(&format!("ALTER ROLE {} CONNECTION LIMIT {connections}", self.name)).await;
    }

    async fn end_connections(&self) {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1";
        self.ledger.query(sql, &[&self.name]).await;
    }

    async fn gone(self) {
        self.end_connections().await;
        self.ledger.execute(&format!("DROP OWNED BY {0}; DROP ROLE {0}", self.name)).await;
    }

    fn url(&self) -> String {
        let url = self.ledger.url();
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let (_, place) = rest.split_once('@').expect("with a user");
        format!("{scheme}://{}@{place}", self.name)
    }
}

/// Four lanes want six connections, and there are fewer for good: everything is handled, and the service
/// says once what is wrong.
async fn fewer_connections_than_it_wants(connections: i32, acts: Vec<Act>) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(4).await);
    let role = Role::new(&ledger).await;
    role.limit(connections).await;
    let service = Service { database: role.url(), ..Service::new(&ledger, &topic) };
    let worker = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan { acts, per_second: 100, ..LoadPlan::default() });
    ledger.reaches(300).await;
    let mut sent = load.stop();
    no_message_noticed(&ledger, &topic, &sent).await;
    // After everybody had nothing to do for a while.
    tokio::time::sleep(Duration::from_secs(1)).await;
    sent.extend(send(&topic, &notes("later", 100, 40, 4)));
    no_message_noticed(&ledger, &topic, &sent).await;
    let log = worker.log();
    assert_eq!(log.matches("no room for all connections").count(), 1);
    assert!(!log.contains("the database is down"), "that it is full is no outage");
    let complaints = worker.complaints();
    assert!(complaints < 10, "{complaints} warnings and errors");
    worker.stop().await;
    role.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_as_lanes() {
    fewer_connections_than_it_wants(4, vec![Act::Note]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_for_everything() {
    fewer_connections_than_it_wants(2, vec![Act::Look, Act::Sleep(5), Act::Note]).await;
}

/// Others take all connections for a while, after ours were ended: then those that are free are used.
#[tokio::test(flavor = "multi_thread")]
async fn none_for_a_while() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(4).await);
    let role = Role::new(&ledger).await;
    let service = Service { database: role.url(), ..Service::new(&ledger, &topic) };
    let worker = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan::default());
    ledger.reaches(200).await;
    for _ in 0..2 {
        role.limit(0).await;
        role.end_connections().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let before = ledger.count().await;
        role.limit(-1).await;
        ledger.reaches(before + 200).await;
    }
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    let complaints = worker.complaints();
    assert!(complaints < 40, "{complaints} warnings and errors");
    worker.stop().await;
    role.gone().await;
}

/// The server ends connections at random while it has room for fewer than are wanted: they are handed
/// on, and whoever gets a lost one blames nobody.
#[tokio::test(flavor = "multi_thread")]
async fn few_connections_and_these_are_ended() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(4).await);
    let role = Role::new(&ledger).await;
    role.limit(3).await;
    let service = Service { database: role.url(), ..Service::new(&ledger, &topic) };
    let worker = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan { seed, ..LoadPlan::default() });
    ledger.reaches(100).await;
    let mut ended = 0;
    for _ in 0..30 {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1 ORDER BY random() LIMIT 1";
        ended += ledger.query(sql, &[&role.name]).await.len();
        tokio::time::sleep(Duration::from_millis(random.u64(0..300))).await;
    }
    assert!(ended > 15, "only {ended} connections were there to be ended");
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    worker.stop().await;
    role.gone().await;
}

/// Connections are ended while partitions move from process to process: in take-overs, releases and
/// flushes as well as in batches.
#[tokio::test(flavor = "multi_thread")]
async fn connections_end_while_partitions_move() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(12).await);
    let role = Role::new(&ledger).await;
    let service = Service { database: role.url(), ..Service::new(&ledger, &topic) };
    let worker = Worker::start(&service);
    let load = Load::start(&topic, LoadPlan { seed, keys: 120, ..LoadPlan::default() });
    ledger.reaches(100).await;
    for round in 0..2 {
        let named = service.named(&format!("other-{round}"));
        let mut other = Worker::start(&named);
        let group = service.group();
        let mut ended = 0;
        while ended < 30 || !group.members().contains(&named.name) {
            // One whose connection is ended while it starts ends itself.
            if !other.is_running() {
                other = Worker::start(&named);
            }
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1 AND query <> '' \
                       ORDER BY random() LIMIT 1";
            ended += ledger.query(sql, &[&role.name]).await.len();
            tokio::time::sleep(Duration::from_millis(random.u64(0..100))).await;
        }
        // Killed: the first takes its partitions over.
        drop(other);
    }
    no_message_noticed(&ledger, &topic, &load.stop()).await;
    worker.stop().await;
    role.gone().await;
}
