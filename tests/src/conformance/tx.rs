//! What handlers work through: a transaction that they cannot end.

use std::time::Duration;

use inbox_core::FailureClass;
use inbox_core::process::{Attempt, AttemptEnd};

use crate::dialect::Dialect;
use crate::scene::Scene;
use crate::script::{Script, Step, message};

/// Runs the steps in a transaction of their own: commits what is done, rolls back the rest.
async fn run<D: Dialect>(scene: &Scene<D>, steps: impl IntoIterator<Item = Step>) -> AttemptEnd {
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene.handle(&mut conn, steps).await;
    match end {
        AttemptEnd::Done => D::commit(&mut conn).await.expect("it commits"),
        // The transaction may have ended by itself.
        _ => D::discard(conn).await,
    }
    end
}

fn insert(id: i32) -> String {
    format!("INSERT INTO effects (id) VALUES ({id})")
}

/// Fails, because `insert(1)` was there first.
fn insert_again() -> Step {
    Step::SendToFail(insert(1))
}

/// Each is refused unsent, and the attempt fails even if the handler swallows that.
pub async fn statements_that_end_a_transaction_are_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let statements = [
        "COMMIT",
        "commit and chain",
        "/* x */ rollback",
        "-- x\nROLLBACK TO SAVEPOINT inbox_1",
        ";; END",
        "BEGIN",
        "SAVEPOINT mine",
        "RELEASE SAVEPOINT inbox_1",
        "SET search_path = 'x'",
        "SET LOCAL lock_timeout = 0",
        "RESET ALL",
        "DISCARD ALL",
        "PREPARE mine AS SELECT 1",
        "EXECUTE mine",
        "DEALLOCATE ALL",
        "ABORT",
        "(COMMIT)",
    ];
    for statement in statements {
        scene.open(&mut conn, "a").await;
        let steps = [Step::send(insert(1)), Step::SendAndForget(statement.into())];
        let end = scene.handle(&mut conn, steps).await;
        let AttemptEnd::Failed { failure, suspect_database: false, .. } = end else {
            panic!("{statement}: {end:?}")
        };
        assert!(failure.reason().contains("cannot send"), "{statement}: {failure}");
        // It was not sent: the transaction is open.
        D::rollback(&mut conn).await.expect(statement);
    }
    assert_eq!((scene.count("effects").await, scene.messages().await), (0, 0));
}

/// Several statements in one text could end the transaction unseen.
pub async fn batch_execute_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let end = run(&scene, [Step::SendBatch(insert(1))]).await;
    let AttemptEnd::Failed { failure, .. } = end else { panic!("{end:?}") };
    assert!(failure.reason().contains("batch_execute"), "{failure}");
    assert_eq!(scene.count("effects").await, 0);
}

/// Whether a driver refuses a second statement in one text or leaves it out: it must not end the
/// transaction.
pub async fn what_follows_in_the_same_text_does_not_run<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let steps = [Step::SendAndForget(format!("{}; COMMIT", insert(1))), Step::FailPermanently];
    let end = scene.handle(&mut conn, steps).await;
    assert!(matches!(end, AttemptEnd::Failed { .. }), "{end:?}");
    D::rollback(&mut conn).await.expect("it is open");
    assert_eq!((scene.count("effects").await, scene.messages().await), (0, 0));
}

/// Whatever the handler returns.
pub async fn a_swallowed_error_fails_the_attempt<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let end = run(&scene, [Step::send(insert(1)), insert_again()]).await;
    let AttemptEnd::Failed { index: Some(0), failure, suspect_database: false } = end else {
        panic!("{end:?}")
    };
    assert_eq!(failure.class(), FailureClass::Constraint);
    assert!(failure.reason().contains("went on"), "{failure}");
    assert_eq!((scene.count("effects").await, scene.messages().await), (0, 0));
}

/// The database, or we for it, give the transaction up; nothing of it may remain.
pub async fn after_an_error_nothing_more_is_sent<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    for failing in [insert(1), D::ABORTING.to_owned()] {
        let steps = [Step::send(insert(1)), Step::SendToFail(failing), Step::SendToFail(insert(2))];
        let end = run(&scene, steps).await;
        let AttemptEnd::Failed { failure, .. } = end else { panic!("{end:?}") };
        assert_ne!(failure.class(), FailureClass::Permanent, "{failure}");
        assert_eq!((scene.count("effects").await, scene.messages().await), (0, 0));
    }
}

/// A handler that expects an error puts it behind a savepoint.
pub async fn a_savepoint_survives_an_error<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let steps = [
        Step::send(insert(1)),
        Step::Savepoint,
        Step::send(insert(2)),
        insert_again(),
        Step::RollbackTo,
        Step::send(insert(3)),
    ];
    let end = run(&scene, steps).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    let ids = scene.values("SELECT CAST(id AS text) AS value FROM effects ORDER BY id").await;
    assert_eq!(ids, [Some("1".to_owned()), Some("3".to_owned())]);
    assert_eq!(scene.messages().await, 1);
}

/// And goes on where nothing failed.
pub async fn a_savepoint_that_is_released_keeps_its_work<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let steps = [Step::Savepoint, Step::send(insert(1)), Step::Release, Step::send(insert(2))];
    let end = run(&scene, steps).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    assert_eq!(scene.count("effects").await, 2);
}

/// The inner one first.
pub async fn savepoints_nest<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let steps = [
        Step::Savepoint,
        Step::send(insert(1)),
        Step::Savepoint,
        insert_again(),
        Step::RollbackTo,
        Step::send(insert(2)),
        Step::RollbackTo,
        Step::send(insert(3)),
    ];
    let end = run(&scene, steps).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    assert_eq!(scene.count("effects").await, 1);
    assert_eq!(scene.count("effects WHERE id = 3").await, 1);
}

/// It would make rolling back to it forget the error.
pub async fn a_savepoint_after_an_error_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let end = run(&scene, [Step::send(insert(1)), insert_again(), Step::Savepoint]).await;
    assert!(matches!(end, AttemptEnd::Failed { .. }), "{end:?}");
    // Also where nothing was sent to the database.
    let end = run(&scene, [Step::SendAndForget("COMMIT".into()), Step::Savepoint]).await;
    assert!(matches!(end, AttemptEnd::Failed { .. }), "{end:?}");
    assert_eq!(scene.count("effects").await, 0);
}

/// It would keep half of the work.
pub async fn a_release_after_an_error_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let steps =
        [Step::send(insert(1)), Step::Savepoint, Step::send(insert(2)), insert_again(), Step::Release];
    let end = run(&scene, steps).await;
    assert!(matches!(end, AttemptEnd::Failed { .. }), "{end:?}");
    assert_eq!(scene.count("effects").await, 0);
}

/// It outweighs an error of the message's own.
pub async fn a_permanent_failure_is_the_handlers_word<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let end = run(&scene, [Step::send(insert(1)), insert_again(), Step::FailPermanently]).await;
    let AttemptEnd::Failed { failure, suspect_database: false, .. } = end else { panic!("{end:?}") };
    assert_eq!((failure.class(), failure.reason()), (FailureClass::Permanent, "the script says so"));
    assert_eq!(scene.count("effects").await, 0);
}

/// Later messages see what earlier ones did, and none runs behind one that failed.
pub async fn messages_run_in_sequence_and_the_failing_one_is_named<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let messages = [
        message([Step::send(insert(1))]),
        message([Step::send("UPDATE effects SET id = id + 1 WHERE id = 1")]),
        message([Step::send(insert(2))]),
        message([Step::Panic]),
    ];
    let messages: Vec<_> = messages.iter().collect();
    let attempt = Attempt { time_limit: Duration::from_secs(20), chains: None };
    let end = D::handle_each(&mut conn, &Script, &messages, &attempt).await;
    assert!(matches!(end, AttemptEnd::Failed { index: Some(2), .. }), "{end:?}");
    D::rollback(&mut conn).await.expect("it is open");
    scene.open(&mut conn, "a").await;
    let end = D::handle_each(&mut conn, &Script, &messages[..2], &attempt).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    D::commit(&mut conn).await.expect("it commits");
    assert_eq!(scene.count("effects WHERE id = 2").await, 1);
}
