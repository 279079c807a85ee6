//! Commit: effect and receipt together, proven by more than COMMIT's answer.

use std::time::Duration;

use inbox_core::process::AttemptEnd;
use tokio::time::timeout;

use crate::dialect::Dialect;
use crate::scene::{IMPATIENT, LIMITS, Scene};
use crate::script::Step;

const EFFECT: &str = "INSERT INTO effects (id) VALUES (1)";

async fn effects<D: Dialect>(scene: &Scene<D>) -> (u64, u64) {
    (scene.count("effects").await, scene.messages().await)
}

/// Nothing is seen before, both after.
pub async fn effect_and_receipt_come_together<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene.handle(&mut conn, [Step::send(EFFECT)]).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    assert_eq!(effects(&scene).await, (0, 0));
    D::commit(&mut conn).await.expect("it commits");
    assert_eq!(effects(&scene).await, (1, 1));
}

/// Neither effect nor receipt, and the connection is good for more.
pub async fn a_rollback_leaves_neither<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    scene.handle(&mut conn, [Step::send(EFFECT)]).await;
    D::rollback(&mut conn).await.expect("it is open");
    assert_eq!(effects(&scene).await, (0, 0));
    scene.open(&mut conn, "a").await;
    D::commit(&mut conn).await.expect("it commits");
    assert_eq!(effects(&scene).await, (0, 1));
}

/// COMMIT of such a transaction may report success: the proof before it must not.
pub async fn a_transaction_ended_by_an_error_cannot_be_committed<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let steps = [Step::send(EFFECT), Step::SendAndForget(D::ABORTING.into())];
    let end = scene.handle(&mut conn, steps).await;
    assert!(matches!(end, AttemptEnd::Failed { .. }), "{end:?}");
    D::commit(&mut conn).await.expect_err("the transaction has ended");
    D::discard(conn).await;
    assert_eq!(effects(&scene).await, (0, 0));
}

/// Not even when nothing was done in it.
pub async fn a_transaction_rolled_back_cannot_be_committed<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    D::rollback(&mut conn).await.expect("it is open");
    D::commit(&mut conn).await.expect_err("there is no transaction");
    D::discard(conn).await;
    assert_eq!(scene.messages().await, 0);
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    D::commit(&mut conn).await.expect("it commits");
    D::commit(&mut conn).await.expect_err("it has been committed");
}

/// It is cut off in the middle of a statement or between two, and its connection thrown away.
pub async fn a_handler_past_its_time_limit_leaves_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let busy = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) \
                INSERT INTO effects (id) SELECT max(i) FROM n";
    for slow in [Step::Wait(60_000), Step::send(busy)] {
        let mut conn = scene.conn().await;
        scene.open(&mut conn, "a").await;
        let limit = Duration::from_millis(100);
        let end = scene.handle_within(&mut conn, [Step::send(EFFECT), slow], limit).await;
        assert!(matches!(end, AttemptEnd::TimedOut { index: Some(0) }), "{end:?}");
        D::discard(conn).await;
        assert_eq!(effects(&scene).await, (0, 0));
        // Nothing of it holds a lock.
        let mut conn = scene.conn().await;
        let admitted = D::admit(&mut conn, &IMPATIENT, &scene.ids(["a"])).await.expect("an answer");
        assert!(matches!(admitted, inbox_core::store::Admitted::Open(_)), "{admitted:?}");
        D::rollback(&mut conn).await.expect("it is open");
    }
}

/// The same for a panic.
pub async fn a_handler_that_panics_leaves_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    let end = scene.handle(&mut conn, [Step::send(EFFECT), Step::Panic]).await;
    let AttemptEnd::Panicked { index: Some(0), reason } = end else { panic!("{end:?}") };
    assert_eq!(reason, "the script says so");
    D::discard(conn).await;
    assert_eq!(effects(&scene).await, (0, 0));
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
}

/// However far it got when its future was dropped: after the discard, or without one, others go on.
pub async fn a_dropped_admission_leaves_nothing_open<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    for (micros, discard) in (0..40).map(|n| (n * 100, n % 2 == 0)) {
        let mut conn = scene.conn().await;
        let admission = scene.ids(["a", "b", "c"]);
        let admitted = timeout(Duration::from_micros(micros), D::admit(&mut conn, &LIMITS, &admission)).await;
        drop(admitted);
        if discard {
            D::discard(conn).await;
        } else {
            drop(conn);
        }
    }
    assert_eq!(scene.messages().await, 0);
    scene.write(&scene.ids(["a", "b", "c"])).await.expect("nothing holds a lock");
    assert_eq!(scene.messages().await, 3);
}

/// The same in the middle of a handler's statements and of the commit; what was committed by then is
/// complete.
pub async fn a_dropped_transaction_leaves_nothing_open<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    for round in 0..40 {
        let mut conn = scene.conn().await;
        let id = format!("id-{round}");
        let admission = scene.ids([&*id]);
        let steps =
            (0..5).map(|n| Step::send(format!("INSERT INTO effects (id) VALUES ({})", round * 10 + n)));
        let whole = async {
            D::admit(&mut conn, &LIMITS, &admission).await.expect("an answer");
            let end = scene.handle(&mut conn, steps).await;
            assert!(matches!(end, AttemptEnd::Done), "{end:?}");
            D::commit(&mut conn).await.expect("it commits");
        };
        drop(timeout(Duration::from_micros(round * 150), whole).await);
        D::discard(conn).await;
    }
    let (effects, messages) = effects(&scene).await;
    assert_eq!(effects, messages * 5);
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "last").await;
}
