//! Finish: open → done, inside the effect's transaction (P1).

use std::time::Duration;

use inbox_core::StartToken;
use inbox_core::process::AttemptEnd;
use inbox_core::store::{Admit, Admitted, Conflict, Fence, Park, RowState, Started, Transition};
use tokio::time::timeout;

use crate::conformance::admit::WIDE;
use crate::conformance::park::{column, failed, park, waiting};
use crate::conformance::start::{asked, finish, start, started, started_by};
use crate::dialect::Dialect;
use crate::scene::{A_WHILE, IMPATIENT, LIMITS, Scene, foreign, ownership};
use crate::script::Step;

const EFFECT: &str = "INSERT INTO effects (id) VALUES (1)";

/// How many effects, and how many receipts.
async fn finished<D: Dialect>(scene: &Scene<D>) -> (u64, u64) {
    let done = format!("{} WHERE state = 2 AND outcome = 0", D::table("messages"));
    (scene.count("effects").await, scene.count(&done).await)
}

/// A started row, after a failed attempt: every column of an open row is used.
async fn one<D: Dialect>(scene: &Scene<D>) -> Started {
    let failed = Some(failed(2, Duration::ZERO));
    park(scene, &[Park { failed, ..waiting(scene, "a", 1, Some("k")) }]).await;
    started(scene, "k").await.0
}

/// Nothing is seen before, both after; the receipt is one like any other.
pub async fn effect_and_receipt_come_together<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let mut conn = scene.conn().await;
    assert_eq!(D::finish(&mut conn, &LIMITS, &row).await.expect("an answer"), Transition::Done);
    let end = scene.handle(&mut conn, [Step::send(EFFECT)]).await;
    assert!(matches!(end, AttemptEnd::Done), "{end:?}");
    assert_eq!(finished(&scene).await, (0, 0));
    D::commit(&mut conn).await.expect("it commits");
    assert_eq!(finished(&scene).await, (1, 1));
    assert_eq!(scene.count(&format!("{} WHERE {WIDE}", D::table("messages"))).await, 0);
    assert_eq!(column(&scene, "CAST(record_offset AS text)", "a").await.as_deref(), Some("1"));
}

/// No effect, and the row is as it was: its own token finishes it the next time.
pub async fn a_rollback_leaves_it_open_and_started<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let mut conn = scene.conn().await;
    for round in 0..3 {
        assert_eq!(D::finish(&mut conn, &LIMITS, &row).await.expect("an answer"), Transition::Done);
        scene.handle(&mut conn, [Step::send(EFFECT)]).await;
        if round < 2 {
            D::rollback(&mut conn).await.expect("it is open");
            assert_eq!(finished(&scene).await, (0, 0));
            let token = column(&scene, &D::id_hex("start_token"), "a").await;
            assert_eq!(token, Some(row.token.as_uuid().simple().to_string()));
            assert_eq!(column(&scene, "CAST(attempts AS text)", "a").await.as_deref(), Some("2"));
        }
    }
    D::commit(&mut conn).await.expect("it commits");
    assert_eq!(finished(&scene).await, (1, 1));
}

/// COMMIT may report success, the proof before it must not.
pub async fn a_transaction_ended_by_an_error_cannot_be_committed<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let mut conn = scene.conn().await;
    assert_eq!(D::finish(&mut conn, &LIMITS, &row).await.expect("an answer"), Transition::Done);
    scene.handle(&mut conn, [Step::send(EFFECT), Step::SendAndForget(D::ABORTING.into())]).await;
    D::commit(&mut conn).await.expect_err("the transaction has ended");
    D::discard(conn).await;
    assert_eq!(finished(&scene).await, (0, 0));
    assert_eq!(finish(&scene, &row).await, Transition::Done);
}

/// Somebody else's start, one that has ended, a row that is not there: nothing is written, and no transaction is
/// open.
pub async fn a_stale_token_is_gone<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    park(&scene, &[waiting(&scene, "never started", 2, Some("l"))]).await;
    let other = scene.subscribe("totals").await;
    let mut conn = scene.conn().await;
    let stale = [
        Started { token: StartToken::random(), ..row },
        Started { id: crate::scene::stored("never started"), ..row },
        Started { id: crate::scene::stored("nobody"), ..row },
        Started { subscription: other, ..row },
    ];
    for stale in stale {
        assert_eq!(D::finish(&mut conn, &LIMITS, &stale).await.expect("an answer"), Transition::Gone);
        D::commit(&mut conn).await.expect_err("no transaction is open");
        D::discard(conn).await;
        conn = scene.conn().await;
        assert_eq!(D::finish(&mut conn, &LIMITS, &stale).await.expect("an answer"), Transition::Gone);
    }
    assert_eq!(D::finish(&mut conn, &LIMITS, &row).await.expect("an answer"), Transition::Done);
    D::commit(&mut conn).await.expect("it commits");
    // A commit whose answer was lost: the repeated one finds it done.
    assert_eq!(D::finish(&mut conn, &LIMITS, &row).await.expect("an answer"), Transition::Gone);
    assert_eq!(finished(&scene).await, (0, 1));
}

/// The second one waits for the first, and finishes only what that one did not.
pub async fn of_two_at_once_one_finishes<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    for commits in [false, true] {
        let (mut first, mut second) = (scene.conn().await, scene.conn().await);
        assert_eq!(D::finish(&mut first, &LIMITS, &row).await.expect("an answer"), Transition::Done);
        let answer = {
            let mut waiting = std::pin::pin!(D::finish(&mut second, &LIMITS, &row));
            assert!(timeout(A_WHILE, &mut waiting).await.is_err(), "it did not wait");
            if commits {
                D::commit(&mut first).await.expect("it is open");
            } else {
                D::rollback(&mut first).await.expect("it is open");
            }
            waiting.await.expect("an answer")
        };
        if commits {
            assert_eq!(answer, Transition::Gone);
        } else {
            assert_eq!(answer, Transition::Done);
            D::rollback(&mut second).await.expect("it is open");
        }
    }
    assert_eq!(finished(&scene).await, (0, 1));
}

/// A wait has its limit, and the row stays as it was.
pub async fn it_gives_up_after_the_lock_limit<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let (mut first, mut second) = (scene.conn().await, scene.conn().await);
    assert_eq!(D::finish(&mut first, &LIMITS, &row).await.expect("an answer"), Transition::Done);
    D::finish(&mut second, &IMPATIENT, &row).await.expect_err("the first one is open");
    D::discard(second).await;
    D::rollback(&mut first).await.expect("it is open");
    assert_eq!(finish(&scene, &row).await, Transition::Done);
}

/// Redelivered before, it is open, and a duplicate after.
pub async fn its_id_is_a_duplicate_from_then_on<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let message = waiting(&scene, "a", 1, Some("k"));
    park(&scene, std::slice::from_ref(&message)).await;
    let (row, read) = started(&scene, "k").await;
    let again = Admit { fingerprint: read.fingerprint, ..scene.admit("a", 8) };
    let conflict = |state| Admitted::Open(vec![Conflict { index: 0, state, other_payload: false }]);
    let admitted = scene.write(&scene.admission([again])).await.expect("an answer");
    assert_eq!(admitted, conflict(RowState::Open));
    assert_eq!(finish(&scene, &row).await, Transition::Done);
    let admitted = scene.write(&scene.admission([again])).await.expect("an answer");
    assert_eq!(admitted, conflict(RowState::Done));
    assert_eq!(scene.messages().await, 1);
}

/// Nothing is written, and no transaction is open.
pub async fn another_epoch_finishes_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let stale = Started { fence: foreign(scene.fence.partition), ..row };
    let mut conn = scene.conn().await;
    for _ in 0..2 {
        assert_eq!(D::finish(&mut conn, &LIMITS, &stale).await.expect("an answer"), Transition::Fenced);
    }
    D::commit(&mut conn).await.expect_err("no transaction is open");
    D::discard(conn).await;
    assert_eq!(finish(&scene, &row).await, Transition::Done);
}

/// What passed the check of the old epoch is committed before the new one begins; rolled back, it is the new
/// owner's.
pub async fn a_take_over_waits_for_it<D: Dialect>() {
    for commits in [true, false] {
        let scene = Scene::<D>::new().await;
        let row = one(&scene).await;
        let (mut old, mut new) = (scene.conn().await, scene.conn().await);
        assert_eq!(D::finish(&mut old, &LIMITS, &row).await.expect("an answer"), Transition::Done);
        scene.handle(&mut old, [Step::send(EFFECT)]).await;
        let owned = ownership(3, vec![scene.subscription], 0);
        let mut taking = std::pin::pin!(D::take_over(&mut new, &LIMITS, &owned));
        assert!(timeout(A_WHILE, &mut taking).await.is_err(), "it did not wait");
        if commits {
            D::commit(&mut old).await.expect("it was there first");
        } else {
            D::rollback(&mut old).await.expect("it is open");
        }
        let taken = taking.await.expect("the old transaction has ended");
        assert_eq!(taken.open.len(), usize::from(!commits));
        assert_eq!(D::finish(&mut old, &LIMITS, &row).await.expect("an answer"), Transition::Fenced);
        let fence = Fence { partition: taken.partition, epoch: owned.epoch };
        let asked = inbox_core::store::Start { fence, ..asked(&scene, "k") };
        if commits {
            assert!(matches!(start(&scene, &asked).await, inbox_core::store::Head::None));
            assert_eq!(finished(&scene).await, (1, 1));
        } else {
            let (row, _) = started_by(&scene, &asked).await;
            assert_eq!(finish(&scene, &row).await, Transition::Done);
            assert_eq!(finished(&scene).await, (0, 1));
        }
    }
}

/// Also one that leaves this subscription's rows alone: whoever owns the partition next may have its handler.
pub async fn a_take_over_for_others_waits_for_it<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let other = scene.subscribe("totals").await;
    let (mut old, mut new) = (scene.conn().await, scene.conn().await);
    assert_eq!(D::finish(&mut old, &LIMITS, &row).await.expect("an answer"), Transition::Done);
    let owned = ownership(3, vec![other], 0);
    let mut taking = std::pin::pin!(D::take_over(&mut new, &LIMITS, &owned));
    assert!(timeout(A_WHILE, &mut taking).await.is_err(), "it did not wait");
    D::rollback(&mut old).await.expect("it is open");
    assert_eq!(taking.await.expect("the old transaction has ended").open, []);
    // Its start is as it was, until its own handler is asked for.
    assert_eq!(D::finish(&mut old, &LIMITS, &row).await.expect("an answer"), Transition::Fenced);
    assert!(column(&scene, &D::id_hex("start_token"), "a").await.is_some());
    scene.take_over(3).await;
    assert_eq!(column(&scene, &D::id_hex("start_token"), "a").await, None);
}

/// However far it got when its future was dropped: after the discard, or without one, others go on.
pub async fn a_dropped_one_leaves_nothing_open<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    for (micros, discard) in (0..40).map(|n| (n * 100, n % 2 == 0)) {
        let mut conn = scene.conn().await;
        drop(timeout(Duration::from_micros(micros), D::finish(&mut conn, &LIMITS, &row)).await);
        if discard {
            D::discard(conn).await;
        } else {
            drop(conn);
        }
    }
    assert_eq!(finished(&scene).await, (0, 0));
    assert_eq!(finish(&scene, &row).await, Transition::Done);
}
