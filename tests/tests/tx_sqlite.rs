//! What handlers work through on `SQLite`: the suite, and what only `SQLite` does (errors that end a
//! transaction, statements that go on when nobody waits).

use std::time::Duration;

use inbox_core::process::{Attempt, AttemptEnd};
use inbox_core::{Database, Sqlite};
use inbox_tests::scene::Scene;
use inbox_tests::script::{Script, Step, message};

inbox_tests::tx_conformance!(inbox_core::Sqlite);
inbox_tests::plain_diesel!(inbox_core::Sqlite);

fn insert(id: i32) -> Step {
    Step::send(format!("INSERT INTO effects (id) VALUES ({id})"))
}

async fn rows(scene: &Scene<Sqlite>) -> (u64, u64) {
    (scene.count("effects").await, scene.messages().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_change_the_connection_is_refused() {
    let scene = Scene::<Sqlite>::new().await;
    let mut conn = scene.conn().await;
    for statement in [
        "PRAGMA foreign_keys = OFF",
        "ATTACH ':memory:' AS other",
        "DETACH other",
        "VACUUM",
        "/* /* */ COMMIT",
    ] {
        scene.open(&mut conn, "a").await;
        let end = scene.handle(&mut conn, [Step::SendAndForget(statement.into())]).await;
        let AttemptEnd::Failed { failure, .. } = end else { panic!("{statement}: {end:?}") };
        assert!(failure.reason().contains("cannot send"), "{statement}: {failure}");
        Sqlite::rollback(&mut conn).await.expect("it is open");
    }
}

/// The statement goes on by itself: whether it failed nobody would know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_dropped_before_its_answer_fails_the_attempt() {
    let scene = Scene::<Sqlite>::new().await;
    let busy = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) \
                INSERT INTO effects (id) SELECT max(i) FROM n";
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene
        .handle(&mut conn, [Step::SendAndDrop(busy.into(), 5), Step::SendAndForget("SELECT 1".into())])
        .await;
    let AttemptEnd::Failed { failure, .. } = end else { panic!("{end:?}") };
    assert!(failure.reason().contains("dropped before its answer"), "{failure}");
    // Behind the statement that still runs.
    Sqlite::rollback(&mut conn).await.expect("it is open");
    assert_eq!(rows(&scene).await, (0, 0));
}

/// All its rows are read at once: an error of any is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_later_row_is_seen() {
    let scene = Scene::<Sqlite>::new().await;
    scene.sql("INSERT INTO effects (id) VALUES (1), (2), (3)").await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let failing =
        "UPDATE effects SET id = CASE id WHEN 3 THEN abs(-9223372036854775807 - 1) ELSE id + 10 END";
    let end = scene.handle(&mut conn, [Step::SendAndForget(failing.into())]).await;
    let AttemptEnd::Failed { failure, .. } = end else { panic!("{end:?}") };
    assert!(failure.reason().contains("overflow"), "{failure}");
    Sqlite::rollback(&mut conn).await.expect("it is open");
    assert_eq!(scene.count("effects WHERE id < 10").await, 3);
}

/// A trigger may end the transaction too; what the handler sends then would commit by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_that_rolls_back_leaves_nothing() {
    let scene = Scene::<Sqlite>::new().await;
    scene
        .sql(
            "CREATE TRIGGER no_thirteen BEFORE INSERT ON effects WHEN new.id = 13 \
             BEGIN SELECT RAISE(ROLLBACK, 'not thirteen'); END",
        )
        .await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let thirteen = Step::SendToFail("INSERT INTO effects (id) VALUES (13)".into());
    let then = Step::SendToFail("INSERT INTO effects (id) VALUES (14)".into());
    let end = scene.handle(&mut conn, [insert(1), Step::Savepoint, thirteen, then]).await;
    let AttemptEnd::Failed { failure, .. } = end else { panic!("{end:?}") };
    assert!(failure.reason().contains("not thirteen"), "{failure}");
    Sqlite::commit(&mut conn).await.expect_err("the transaction has ended");
    Sqlite::discard(conn).await;
    assert_eq!(rows(&scene).await, (0, 0));
}

/// Nor can it be gone back to a savepoint that went with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_of_a_transaction_that_has_ended_is_gone() {
    let scene = Scene::<Sqlite>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let ending = Step::SendToFail("INSERT OR ROLLBACK INTO effects (id) VALUES (1)".into());
    let end =
        scene.handle(&mut conn, [insert(1), Step::Savepoint, ending, Step::RollbackTo, insert(2)]).await;
    assert!(matches!(end, AttemptEnd::Failed { .. }), "{end:?}");
    Sqlite::discard(conn).await;
    assert_eq!(rows(&scene).await, (0, 0));
}

/// What COMMIT itself finds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deferred_constraint_fails_the_commit() {
    let scene = Scene::<Sqlite>::new().await;
    let reference = "integer REFERENCES effects (id) DEFERRABLE INITIALLY DEFERRED";
    scene.sql(&format!("CREATE TABLE children (parent {reference})")).await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene.handle(&mut conn, [Step::send("INSERT INTO children (parent) VALUES (1)")]).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    Sqlite::commit(&mut conn).await.expect_err("there is no parent");
    Sqlite::discard(conn).await;
    assert_eq!((scene.count("children").await, scene.messages().await), (0, 0));
}

/// Handlers cannot share a connection: chains are run in sequence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_run_in_sequence() {
    let scene = Scene::<Sqlite>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let messages = [message([insert(1), insert(2)]), message([insert(3), insert(4)])];
    let messages: Vec<_> = messages.iter().collect();
    let chains = [vec![0], vec![1]];
    let attempt = Attempt { time_limit: Duration::from_secs(20), chains: Some(&chains) };
    let end = Sqlite::handle_each(&mut conn, &Script, &messages, &attempt).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    Sqlite::commit(&mut conn).await.expect("it commits");
    assert_eq!(rows(&scene).await, (4, 1));
}
