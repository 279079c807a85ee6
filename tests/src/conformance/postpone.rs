//! Postpone: an attempt of a started row failed, and the next one is due later.

use std::time::Duration;

use inbox_core::StartToken;
use inbox_core::store::{Failed, Head, Start, Started, Transition};

use crate::conformance::park::{column, failed, park, waiting};
use crate::conformance::start::{asked, finish, start, started, started_by};
use crate::dialect::Dialect;
use crate::scene::{LIMITS, Scene, foreign, just_begun};

const HOUR: Duration = Duration::from_hours(1);

async fn postpone<D: Dialect>(scene: &Scene<D>, row: &Started, failed: &Failed) -> Transition {
    let mut conn = scene.conn().await;
    D::postpone(&mut conn, &LIMITS, row, failed).await.expect("an answer")
}

/// A started row that was never attempted.
async fn one<D: Dialect>(scene: &Scene<D>) -> Started {
    park(scene, &[waiting(scene, "a", 1, Some("k")), waiting(scene, "b", 2, Some("k"))]).await;
    started(scene, "k").await.0
}

/// Attempts are counted in the row, and time from the first one on, whoever starts the next. It stays the head.
pub async fn the_next_attempt_knows_of_the_last<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (mut row, mut key) = (one(&scene).await, asked(&scene, "k"));
    for attempts in 1..4 {
        // The second and third say that the first began just now, but the row knows better.
        let since_first = if attempts == 1 { Duration::from_mins(1) } else { Duration::ZERO };
        let failed = Failed { since_first, ..failed(attempts, Duration::ZERO) };
        assert_eq!(postpone(&scene, &row, &failed).await, Transition::Done);
        for name in ["start_token", "started_at"] {
            assert_eq!(column(&scene, &format!("CAST({name} AS text)"), "a").await, None);
        }
        assert_eq!(column(&scene, "class", "a").await.as_deref(), Some("transient"));
        assert_eq!(column(&scene, "reason", "a").await, Some(failed.reason));
        key.token = StartToken::random();
        let (next, read) = started_by(&scene, &key).await;
        row = next;
        assert_eq!((read.id.as_str(), read.attempts), ("a", attempts));
        assert_eq!(read.value.as_deref(), Some(&b"a"[..]));
        let since = read.since_first.expect("it was attempted");
        assert!(since >= Duration::from_mins(1) && since < Duration::from_mins(2), "{since:?}");
    }
    assert_eq!(finish(&scene, &row).await, Transition::Done);
}

/// And what waits behind it waits on.
pub async fn it_is_not_due_before_its_time<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    assert_eq!(postpone(&scene, &row, &failed(1, HOUR)).await, Transition::Done);
    let head = start(&scene, &asked(&scene, "k")).await;
    let Head::NotDue(due_in) = head else { panic!("{head:?}") };
    assert!(just_begun(due_in, HOUR), "{due_in:?}");
}

/// Texts and times of any content.
pub async fn a_failure_of_any_content_is_stored<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let reason = "a\0b".repeat(1 << 20);
    let failed = Failed { reason, since_first: Duration::MAX, ..failed(u32::MAX, Duration::MAX) };
    assert_eq!(postpone(&scene, &row, &failed).await, Transition::Done);
    let reason = column(&scene, "reason", "a").await.expect("it has one");
    assert!(reason.starts_with("a\u{fffd}ba") && reason.len() < 20_000);
    let head = start(&scene, &asked(&scene, "k")).await;
    let Head::NotDue(due_in) = head else { panic!("{head:?}") };
    assert!(due_in > 99 * 365 * 24 * HOUR, "{due_in:?}");
}

/// The second one finds the token gone, in sequence and at once; so does one of another start.
pub async fn twice_is_once<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let stale = Started { token: StartToken::random(), ..row };
    assert_eq!(postpone(&scene, &stale, &failed(9, HOUR)).await, Transition::Gone);
    assert_eq!(column(&scene, "CAST(attempts AS text)", "a").await.as_deref(), Some("0"));
    assert_eq!(postpone(&scene, &row, &failed(1, Duration::ZERO)).await, Transition::Done);
    assert_eq!(postpone(&scene, &row, &failed(2, HOUR)).await, Transition::Gone);
    let (row, read) = started(&scene, "k").await;
    assert_eq!(read.attempts, 1);
    let (second, third) = (failed(2, Duration::ZERO), failed(3, Duration::ZERO));
    let (one, other) = tokio::join!(postpone(&scene, &row, &second), postpone(&scene, &row, &third));
    assert!([one, other].contains(&Transition::Gone) && [one, other].contains(&Transition::Done));
    let attempts = if one == Transition::Done { 2 } else { 3 };
    assert_eq!(started(&scene, "k").await.1.attempts, attempts);
}

/// What is finished is not opened again, and what waits behind was not started.
pub async fn what_is_finished_stays_so<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    assert_eq!(finish(&scene, &row).await, Transition::Done);
    assert_eq!(postpone(&scene, &row, &failed(1, HOUR)).await, Transition::Gone);
    assert_eq!(column(&scene, "CAST(state AS text)", "a").await.as_deref(), Some("2"));
    let behind = Started { id: crate::scene::stored("b"), ..row };
    assert_eq!(postpone(&scene, &behind, &failed(1, HOUR)).await, Transition::Gone);
    assert_eq!(started(&scene, "k").await.1.attempts, 0);
}

/// Nothing is written, and no transaction is open.
pub async fn another_epoch_postpones_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let stale = Started { fence: foreign(scene.fence.partition), ..row };
    let mut conn = scene.conn().await;
    for _ in 0..2 {
        let answer = D::postpone(&mut conn, &LIMITS, &stale, &failed(1, HOUR)).await.expect("an answer");
        assert_eq!(answer, Transition::Fenced);
    }
    let key: Start = asked(&scene, "k");
    assert!(matches!(D::start(&mut conn, &LIMITS, &key).await.expect("an answer"), Head::Started(_)));
    assert_eq!(column(&scene, "CAST(attempts AS text)", "a").await.as_deref(), Some("0"));
}
