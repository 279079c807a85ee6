//! A pooler in transaction mode: each transaction may run on another connection to the server.

use inbox_tests::job::{Act, Runs};
use inbox_tests::kafka::FreshTopic;
use inbox_tests::load::{Load, LoadPlan};
use inbox_tests::oracle::{Ledger, connect, distinct};
use inbox_tests::pgbouncer::PgBouncer;
use inbox_tests::service::Service;
use inbox_tests::wait;
use inbox_tests::worker::Worker;

/// Debian's pgbouncer is older than 1.21 and does not know which statements a client has prepared: a
/// statement of another process could run in the place of ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_loses_prepared_statements_is_refused_at_the_start() {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(1).await);
    let bouncer = PgBouncer::to(&ledger.url(), 8).await;
    let service = Service { database: bouncer.url.clone(), ..Service::new(&ledger, &topic) };
    for _ in 0..10 {
        let runs = Runs::default();
        // Another process has left something under a name that is used first.
        let said = match service.store().await {
            Err(error) => error.to_string(),
            Ok(_) => service.start_with(service.jobs(&runs).await, runs).fails().await.to_string(),
        };
        for word in ["max_prepared_statements", "1.21", "prepared_statements=transaction"] {
            assert!(said.contains(word), "{said}");
        }
    }
}

/// With statements that are kept to the end of their transaction it serves two processes, with fewer
/// connections than they have; and it is killed and started again.
#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_kept_to_the_end_of_their_transaction_in_batches() {
    served(vec![Act::Note]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_kept_to_the_end_of_their_transaction_in_sequence() {
    served(vec![Act::Look, Act::Sleep(2), Act::Note]).await;
}

const POOL: usize = 5;

/// Leaves statements on each connection of the pool under the names that drivers count up.
async fn others_prepare_statements(bouncer: &PgBouncer) {
    let mut clients = Vec::new();
    for _ in 0..POOL {
        let client = connect(&bouncer.url).await;
        client.batch_execute("BEGIN").await.expect("the pool has one more");
        clients.push(client);
    }
    for client in &clients {
        let prepare = "DEALLOCATE ALL; DO $$ BEGIN FOR n IN 0..5000 LOOP \
                       EXECUTE format('PREPARE s%s AS SELECT 1', n); END LOOP; END $$; COMMIT";
        client.batch_execute(prepare).await.expect("names are free");
    }
}

async fn served(acts: Vec<Act>) {
    let (ledger, topic) = (Ledger::new().await, FreshTopic::create(6).await);
    let mut bouncer = PgBouncer::to(&ledger.url(), POOL).await;
    let database = format!("{}&prepared_statements=transaction", bouncer.url);
    let service = Service { database, ..Service::new(&ledger, &topic) };
    let (first, second) = (Worker::start(&service), Worker::start(&service.named("second")));
    let load = Load::start(&topic, LoadPlan { acts, per_second: 200, resends: 5, ..LoadPlan::default() });
    let both = async || {
        let effects = ledger.effects().await;
        ["first", "second"].iter().all(|name| effects.iter().any(|effect| effect.worker == *name))
    };
    wait::until("effects of both", both).await;
    for _ in 0..2 {
        bouncer.restart().await;
        let before = ledger.count().await;
        ledger.reaches(before + 300).await;
    }
    others_prepare_statements(&bouncer).await;
    let third = Worker::start(&service.named("third"));
    first.kill();
    let before = ledger.count().await;
    ledger.reaches(before + 300).await;
    let sent = load.stop();
    ledger.reaches(distinct(&sent)).await;
    ledger.is_finished(&topic).await;
    ledger.assert_once_in_order("jobs", &sent).await;
    assert_eq!(ledger.dead().await, []);
    assert!(ledger.effects().await.iter().all(|effect| effect.attempt == 1), "no attempt is counted");
    for worker in [second, third] {
        let complaints = worker.complaints();
        assert!(complaints < 100, "{complaints} warnings and errors");
        worker.stop().await;
    }
}
