//! Bury: open → dead, of a started row.

use std::time::Duration;

use inbox_core::store::{Admitted, Head, Park, RowState, Started, Transition};
use inbox_core::{BusinessKey, DeadClass, DeadLetter, Headers, MessageId, Record, StartToken, Timestamp};

use crate::conformance::bury::{hex, letter};
use crate::conformance::park::{column, failed, park, waiting};
use crate::conformance::start::{asked, asked_of, finish, start, started, started_by};
use crate::dialect::Dialect;
use crate::scene::{LIMITS, Scene, foreign};
use crate::script::record;

/// What its last attempt failed with.
fn exhausted<D: Dialect>(scene: &Scene<D>, attempts: u32) -> DeadLetter {
    DeadLetter {
        class: DeadClass::Exhausted,
        reason: "the bank\0is closed".into(),
        attempts,
        since_first: Some(Duration::from_hours(2)),
        ..letter(scene, "a", 1, None)
    }
}

async fn bury_open<D: Dialect>(scene: &Scene<D>, row: &Started, letter: &DeadLetter) -> Transition {
    let mut conn = scene.conn().await;
    D::bury_open(&mut conn, &LIMITS, row, letter).await.expect("an answer")
}

async fn one<D: Dialect>(scene: &Scene<D>) -> Started {
    let failed = Some(failed(2, Duration::ZERO));
    let first = Park { failed, ..waiting(scene, "a", 1, Some("k")) };
    park(scene, &[first, waiting(scene, "b", 2, Some("k"))]).await;
    started(scene, "k").await.0
}

/// What was parked is what a person finds.
pub async fn a_letter_keeps_every_byte<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let megabyte = vec![0xfe; 1 << 20];
    let values: [Option<&[u8]>; 5] = [Some(b"\0a\0"), Some(&[0xff, 0xc3]), Some(&megabyte), Some(b""), None];
    for (value, offset) in values.into_iter().zip(1..) {
        let bytes = || value.map(|value| value.to_vec().into());
        let Record { place, .. } = record(offset, None);
        let headers = Headers::new([("na\0me", bytes())]);
        let id = format!("id\0{offset}");
        let message = Park {
            key: value.map(BusinessKey::new),
            record: Record::new(place, Some(Timestamp(i64::MIN)), bytes(), bytes(), headers.clone()),
            ..waiting(&scene, &id, offset, None)
        };
        park(&scene, std::slice::from_ref(&message)).await;
        let (row, _) = started_by(&scene, &asked_of(&scene, message.key_id())).await;
        assert_eq!(bury_open(&scene, &row, &exhausted(&scene, 1)).await, Transition::Done);
        let expected = value.map(hex);
        for name in ["payload", "record_key", "business_key"] {
            assert!(column(&scene, &D::hex(name), &id).await == expected, "{name} at {offset}");
        }
        assert_eq!(column(&scene, &D::hex("raw_id"), &id).await, Some(hex(id.as_bytes())));
        let stored = DeadLetter { record: message.record, ..exhausted(&scene, 1) }.stored_headers();
        assert!(column(&scene, &D::hex("headers"), &id).await == Some(hex(&stored)), "headers at {offset}");
        let time = column(&scene, "CAST(record_time AS text)", &id).await;
        assert_eq!(time, Some(i64::MIN.to_string()));
    }
}

/// Why, how often, since when; nothing of it is started or due any more.
pub async fn a_letter_says_why<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let before = column(&scene, &D::millis("first_attempt_at"), "a").await;
    let parked = column(&scene, &D::millis("last_attempt_at"), "a").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(bury_open(&scene, &row, &exhausted(&scene, 3)).await, Transition::Done);
    for (name, value) in [
        ("CAST(state AS text)", Some("1")),
        ("class", Some("exhausted")),
        ("reason", Some("the bank\u{fffd}is closed")),
        ("CAST(attempts AS text)", Some("3")),
        ("CAST(due_at AS text)", None),
        ("CAST(start_token AS text)", None),
        ("CAST(started_at AS text)", None),
        ("CAST(blocks_key AS text)", None),
        ("CAST(outcome AS text)", None),
    ] {
        assert_eq!(column(&scene, name, "a").await.as_deref(), value, "{name}");
    }
    assert_eq!(column(&scene, &D::millis("first_attempt_at"), "a").await, before, "the row knew it");
    let last = column(&scene, &D::millis("last_attempt_at"), "a").await;
    assert!(last > parked, "{last:?}");
    assert_eq!(last, column(&scene, &D::millis("recorded_at"), "a").await);

    // What was never attempted was not attempted by being buried.
    let (row, _) = started(&scene, "k").await;
    let never = DeadLetter { since_first: None, ..exhausted(&scene, 0) };
    assert_eq!(bury_open(&scene, &row, &never).await, Transition::Done);
    for name in ["first_attempt_at", "last_attempt_at"] {
        assert_eq!(column(&scene, &D::millis(name), "b").await, None, "{name}");
    }
}

/// The next one is the head, or the letter is.
pub async fn it_releases_or_holds_its_key<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    assert_eq!(bury_open(&scene, &row, &exhausted(&scene, 3)).await, Transition::Done);
    let (row, read) = started(&scene, "k").await;
    assert_eq!(read.id.as_str(), "b");
    park(&scene, &[waiting(&scene, "c", 3, Some("k"))]).await;
    let blocking = DeadLetter { blocks: true, ..exhausted(&scene, 3) };
    assert_eq!(bury_open(&scene, &row, &blocking).await, Transition::Done);
    assert!(matches!(start(&scene, &asked(&scene, "k")).await, Head::Blocked));
}

/// Dead is dead: the second one, another start's, and every other end find it gone, in sequence and at once.
pub async fn twice_is_once<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let stale = Started { token: StartToken::random(), ..row };
    assert_eq!(bury_open(&scene, &stale, &exhausted(&scene, 9)).await, Transition::Gone);
    let letter = exhausted(&scene, 3);
    let (one, other) = tokio::join!(bury_open(&scene, &row, &letter), bury_open(&scene, &row, &letter));
    assert!([one, other].contains(&Transition::Gone) && [one, other].contains(&Transition::Done));
    assert_eq!(bury_open(&scene, &row, &exhausted(&scene, 9)).await, Transition::Gone);
    assert_eq!(finish(&scene, &row).await, Transition::Gone);
    let mut conn = scene.conn().await;
    let postponed = D::postpone(&mut conn, &LIMITS, &row, &failed(9, Duration::ZERO)).await;
    assert_eq!(postponed.expect("an answer"), Transition::Gone);
    assert_eq!(column(&scene, "CAST(attempts AS text)", "a").await.as_deref(), Some("3"));
}

/// A dead letter is not run because it comes again.
pub async fn its_id_is_a_conflict_for_admission<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    assert_eq!(bury_open(&scene, &row, &exhausted(&scene, 3)).await, Transition::Done);
    let Admitted::Open(conflicts) = scene.write(&scene.ids(["a"])).await.expect("an answer") else {
        panic!("it is ours")
    };
    assert_eq!((conflicts.len(), conflicts[0].state), (1, RowState::Dead));
    let parked = park(&scene, &[waiting(&scene, "a", 1, Some("k"))]).await;
    assert_eq!(parked, inbox_core::store::Written::Done { duplicates: 1 });
}

/// Nothing is written, and no transaction is open.
pub async fn another_epoch_buries_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let row = one(&scene).await;
    let stale = Started { fence: foreign(scene.fence.partition), ..row };
    let mut conn = scene.conn().await;
    for _ in 0..2 {
        let answer = D::bury_open(&mut conn, &LIMITS, &stale, &exhausted(&scene, 3)).await;
        assert_eq!(answer.expect("an answer"), Transition::Fenced);
    }
    assert_eq!(row.id, MessageId::new("a").stored());
    assert_eq!(finish(&scene, &row).await, Transition::Done);
}
