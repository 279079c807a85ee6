//! What handlers work through on Postgres: the suite, and what only Postgres has (pipelining, rows
//! that come while others are computed, statements prepared on the server).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use diesel::QueryableByName;
use diesel::sql_types::{BigInt, Integer};
use diesel_async::RunQueryDsl;
use futures_util::StreamExt;
use inbox_core::process::{Attempt, AttemptEnd, Chain};
use inbox_core::{Database, Definition, Handler, Json, Message, Outcome, Postgres, Subscription, Tx};
use inbox_tests::scene::Scene;
use inbox_tests::script::{Script, Step, message, message_of};

inbox_tests::tx_conformance!(inbox_core::Postgres);
inbox_tests::plain_diesel!(inbox_core::Postgres);

const LIMIT: Duration = Duration::from_secs(20);

fn insert(id: i32) -> Step {
    Step::send(format!("INSERT INTO effects (id) VALUES ({id})"))
}

/// Runs messages pipelined in an open transaction.
async fn pipelined(
    conn: &mut <Postgres as Database>::Conn,
    messages: &[Vec<Step>],
    chains: &[Chain],
) -> AttemptEnd {
    let messages: Vec<_> = messages.iter().cloned().map(message_of).collect();
    let messages: Vec<_> = messages.iter().collect();
    Postgres::handle_each(conn, &Script, &messages, &Attempt { time_limit: LIMIT, chains: Some(chains) })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_of_one_statement_share_the_connection() {
    let scene = Scene::<Postgres>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let messages: Vec<_> = (0..100).map(|id| vec![insert(id)]).collect();
    // Ten keys with ten messages each.
    let chains: Vec<Chain> = (0..10).map(|key| (0..10).map(|n| n * 10 + key).collect()).collect();
    let end = pipelined(&mut conn, &messages, &chains).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    Postgres::commit(&mut conn).await.expect("it commits");
    assert_eq!(scene.count("effects").await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_one_key_keep_their_order_while_pipelined() {
    let scene = Scene::<Postgres>::new().await;
    scene.sql("CREATE TABLE log (at integer GENERATED ALWAYS AS IDENTITY, key integer, n integer)").await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let log = |key, n| vec![Step::send(format!("INSERT INTO log (key, n) VALUES ({key}, {n})"))];
    let messages: Vec<_> = (0..60).map(|n| log(n % 3, n)).collect();
    let chains: Vec<Chain> = (0..3).map(|key| (0..20).map(|n| n * 3 + key).collect()).collect();
    let end = pipelined(&mut conn, &messages, &chains).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    Postgres::commit(&mut conn).await.expect("it commits");
    let out_of_order = "log a JOIN log b ON a.key = b.key AND a.at < b.at AND a.n > b.n";
    assert_eq!((scene.count("log").await, scene.count(out_of_order).await), (60, 0));
}

/// Two handlers that read, then write the same row would lose an update.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_statement_while_pipelined_rolls_the_batch_back() {
    let scene = Scene::<Postgres>::new().await;
    let second = "UPDATE effects SET id = id + 1";
    let ways = [
        vec![insert(1), Step::send(second)],
        // A handler that swallows the refusal is found all the same.
        vec![insert(1), Step::SendAndForget(second.into())],
        vec![Step::SendAndForget("SELECT 1 / 0".into()), Step::SendAndForget(second.into())],
        vec![Step::Savepoint, insert(1), Step::Release],
        vec![insert(1), Step::Savepoint],
    ];
    for steps in ways {
        let mut conn = scene.conn().await;
        scene.open(&mut conn, "a").await;
        let messages = [vec![insert(7)], steps, vec![insert(8)]];
        let end = pipelined(&mut conn, &messages, &[vec![0], vec![1], vec![2]]).await;
        let AttemptEnd::SecondStatement { sql } = end else { panic!("{:?}: {end:?}", messages[1]) };
        assert!(sql == second || sql == "SAVEPOINT", "{sql}");
        Postgres::rollback(&mut conn).await.expect("it is open");
    }
    assert_eq!((scene.count("effects").await, scene.messages().await), (0, 0));
}

/// The others find an aborted transaction: none of them is to blame.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_pipelined_errors_the_first_is_reported() {
    let scene = Scene::<Postgres>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let mut messages: Vec<_> = (0..20).map(|id| vec![insert(id)]).collect();
    messages[4] = vec![insert(3)];
    let chains: Vec<Chain> = (0..20).map(|n| vec![n]).collect();
    let end = pipelined(&mut conn, &messages, &chains).await;
    let AttemptEnd::Failed { index: Some(4), failure, suspect_database: false } = end else {
        panic!("{end:?}")
    };
    assert!(failure.reason().contains("effects_pkey"), "{failure}");
    Postgres::rollback(&mut conn).await.expect("it is open");
}

/// Reads one row of many and drops the others, the fifth of which fails.
struct FirstRow;

#[derive(QueryableByName)]
struct Quotient {
    #[diesel(sql_type = Integer)]
    value: i32,
}

impl Subscription for FirstRow {
    type Payload = i32;

    fn definition(&self) -> Definition<i32> {
        Definition::new("first-row", Json)
    }
}

impl Handler<Postgres> for FirstRow {
    async fn handle(&self, _: &Message<i32>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        let rows = diesel::sql_query("SELECT 100 / (5 - i) AS value FROM generate_series(1, 10) AS i");
        let mut rows = rows.load_stream::<Quotient>(tx).await?;
        let first = rows.next().await.expect("ten rows")?;
        assert_eq!(first.value, 25);
        Ok(())
    }
}

/// Nobody has seen the error; the proof before COMMIT does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_stream_dropped_before_its_error_cannot_be_committed() {
    let scene = Scene::<Postgres>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let attempt = Attempt { time_limit: LIMIT, chains: None };
    let end = Postgres::handle_each(&mut conn, &FirstRow, &[&message_of(0)], &attempt).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    Postgres::commit(&mut conn).await.expect_err("the transaction is aborted");
    Postgres::discard(conn).await;
    assert_eq!(scene.messages().await, 0);
}

/// A statement whose future was dropped after it was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_dropped_before_its_error_cannot_be_committed() {
    let scene = Scene::<Postgres>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let failing = "SELECT 1 / (SELECT count(*) - 1 FROM pg_sleep(1.5))";
    let end = scene.handle(&mut conn, [insert(1), Step::SendAndDrop(failing.into(), 500)]).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    Postgres::commit(&mut conn).await.expect_err("the transaction is aborted");
    Postgres::discard(conn).await;
    assert_eq!((scene.count("effects").await, scene.messages().await), (0, 0));
}

/// What COMMIT itself finds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deferred_constraint_fails_the_commit() {
    let scene = Scene::<Postgres>::new().await;
    let reference = "integer REFERENCES effects (id) DEFERRABLE INITIALLY DEFERRED";
    scene.sql(&format!("CREATE TABLE children (parent {reference})")).await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene.handle(&mut conn, [Step::send("INSERT INTO children (parent) VALUES (1)")]).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    Postgres::commit(&mut conn).await.expect_err("there is no parent");
    Postgres::discard(conn).await;
    assert_eq!((scene.count("children").await, scene.messages().await), (0, 0));
}

/// Learns how many statements the server keeps prepared for this connection.
struct CountPrepared(AtomicI64);

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

impl Subscription for CountPrepared {
    type Payload = i32;

    fn definition(&self) -> Definition<i32> {
        Definition::new("count-prepared", Json)
    }
}

impl Handler<Postgres> for CountPrepared {
    async fn handle(&self, _: &Message<i32>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        let counted: Count =
            diesel::sql_query("SELECT count(*) AS count FROM pg_prepared_statements").get_result(tx).await?;
        self.0.store(counted.count, Ordering::Relaxed);
        Ok(())
    }
}

/// Statements are prepared once, and not without bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statement_cache_stays_bounded() {
    let scene = Scene::<Postgres>::new().await;
    let mut conn = scene.conn().await;
    let counter = CountPrepared(AtomicI64::new(0));
    let attempt = Attempt { time_limit: LIMIT, chains: None };
    let mut most = 0;
    for transaction in 0..20 {
        scene.open(&mut conn, &format!("id-{transaction}")).await;
        let texts = (0..50).map(|n| Step::send(format!("SELECT 1 AS column_{}", transaction * 50 + n)));
        let end = Postgres::handle_each(&mut conn, &Script, &[&message(texts)], &attempt).await;
        assert!(matches!(end, AttemptEnd::Done), "{end:?}");
        let end = Postgres::handle_each(&mut conn, &counter, &[&message_of(0)], &attempt).await;
        assert!(matches!(end, AttemptEnd::Done), "{end:?}");
        Postgres::commit(&mut conn).await.expect("it commits");
        most = most.max(AtomicI64::load(&counter.0, Ordering::Relaxed));
    }
    assert!((200..400).contains(&most), "{most} of 1000 statements were kept");
    // The same text again and again is one statement.
    let before = AtomicI64::load(&counter.0, Ordering::Relaxed);
    for transaction in 20..25 {
        scene.open(&mut conn, &format!("id-{transaction}")).await;
        let end = Postgres::handle_each(&mut conn, &counter, &[&message_of(0)], &attempt).await;
        assert!(matches!(end, AttemptEnd::Done), "{end:?}");
        Postgres::commit(&mut conn).await.expect("it commits");
    }
    assert!(AtomicI64::load(&counter.0, Ordering::Relaxed) <= before);
}
