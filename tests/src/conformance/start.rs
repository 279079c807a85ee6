//! Start: the head of a key gets a token before it runs (P3).

use std::time::Duration;

use inbox_core::store::{Head, LogStart, OpenRow, Park, Start, Started, Transition, Written};
use inbox_core::{BusinessKey, DeadLetter, KeyId, MessageId, Offset, Partition, StartToken};
use tokio::time::timeout;

use crate::conformance::accept_log;
use crate::conformance::bury::letter;
use crate::conformance::park::{column, failed, park, waiting};
use crate::dialect::Dialect;
use crate::scene::{A_WHILE, LIMITS, Scene, foreign, just_begun, stored};

/// A start of the head of this key, with a token of its own.
#[must_use]
pub fn asked<D: Dialect>(scene: &Scene<D>, key: &str) -> Start {
    asked_of(scene, KeyId::of(Some(&BusinessKey::new(key.as_bytes())), stored("any")))
}

/// The same of a key that is known by its number.
#[must_use]
pub fn asked_of<D: Dialect>(scene: &Scene<D>, key: KeyId) -> Start {
    Start { subscription: scene.subscription, fence: scene.fence, key, token: StartToken::random() }
}

/// Starts.
pub async fn start<D: Dialect>(scene: &Scene<D>, asked: &Start) -> Head {
    let mut conn = scene.conn().await;
    D::start(&mut conn, &LIMITS, asked).await.expect("an answer")
}

/// Starts the head of this key, which is due.
pub async fn started<D: Dialect>(scene: &Scene<D>, key: &str) -> (Started, OpenRow) {
    started_by(scene, &asked(scene, key)).await
}

/// Starts a head that is due.
pub async fn started_by<D: Dialect>(scene: &Scene<D>, asked: &Start) -> (Started, OpenRow) {
    match start(scene, asked).await {
        Head::Started(row) => {
            let Start { subscription, fence, token, .. } = *asked;
            (Started { subscription, fence, id: row.stored_id, token }, *row)
        }
        head => panic!("{head:?}"),
    }
}

/// Finishes what was started, without an effect.
pub async fn finish<D: Dialect>(scene: &Scene<D>, row: &Started) -> Transition {
    let mut conn = scene.conn().await;
    let finished = D::finish(&mut conn, &LIMITS, row).await.expect("an answer");
    if finished == Transition::Done {
        D::commit(&mut conn).await.expect("it is open");
    }
    finished
}

/// Whatever the order in which they were parked; each next one when the one before is finished.
pub async fn the_lowest_offset_is_the_head<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let message = |offset: i64| waiting(&scene, &format!("id-{offset}"), offset, Some("k"));
    park(&scene, &[message(7), message(12)]).await;
    park(&scene, &[message(3)]).await;
    park(&scene, &[message(9), waiting(&scene, "other", 1, Some("l"))]).await;
    for offset in [3, 7, 9, 12] {
        let (row, read) = started(&scene, "k").await;
        assert_eq!((read.offset, read.id.as_str()), (Offset(offset), &*format!("id-{offset}")));
        assert_eq!(finish(&scene, &row).await, Transition::Done);
    }
    assert!(matches!(start(&scene, &asked(&scene, "k")).await, Head::None));
    assert_eq!(started(&scene, "l").await.1.id.as_str(), "other");
}

/// Offsets of a log that was accepted begin anew, below those of what is still open, or blocks its key.
pub async fn what_an_earlier_log_left_comes_first<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    park(&scene, &[waiting(&scene, "old-12", 12, Some("k")), waiting(&scene, "old-7", 7, Some("k"))]).await;
    let key = Some(BusinessKey::new(b"l"));
    let blocking = DeadLetter { blocks: true, key, ..letter(&scene, "blocks", 5, None) };
    let mut conn = scene.conn().await;
    D::bury(&mut conn, &LIMITS, &[blocking]).await.expect("it is buried");
    let accepted = accept_log::accept(&scene, &accept_log::asked(Some(3), 1, LogStart::Earliest)).await;
    assert_eq!(accepted.expect("an answer"), [Partition(3)]);
    let fence = scene.take_over(3).await;
    let new = |id, offset, key| Park { fence, ..waiting(&scene, id, offset, Some(key)) };
    park(&scene, &[new("new-9", 9, "k"), new("new-0", 0, "k"), new("behind the letter", 1, "l")]).await;
    let asked = |key| Start { fence, ..asked(&scene, key) };
    for id in ["old-7", "old-12", "new-0", "new-9"] {
        let (row, read) = started_by(&scene, &asked("k")).await;
        assert_eq!(read.id.as_str(), id);
        assert_eq!(finish(&scene, &row).await, Transition::Done);
    }
    assert!(matches!(start(&scene, &asked("k")).await, Head::None));
    assert!(matches!(start(&scene, &asked("l")).await, Head::Blocked));
}

/// Nothing is ordered with it, not even a key that looks like its id.
pub async fn a_message_without_a_key_is_its_own<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let messages =
        [waiting(&scene, "a", 2, None), waiting(&scene, "b", 1, None), waiting(&scene, "c", 0, Some("a"))];
    park(&scene, &messages).await;
    for message in &messages {
        let (_, row) = started_by(&scene, &asked_of(&scene, message.key_id())).await;
        assert_eq!((row.id.as_str(), row.key), (message.id.as_str(), message.key.clone()));
    }
}

/// A key is one within its subscription.
pub async fn the_keys_of_others_are_apart<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.subscribe("totals").await;
    park(&scene, &[Park { subscription: other, ..waiting(&scene, "a", 1, Some("k")) }]).await;
    assert!(matches!(start(&scene, &asked(&scene, "k")).await, Head::None));
    park(&scene, &[waiting(&scene, "a", 2, Some("k"))]).await;
    assert_eq!(started(&scene, "k").await.1.offset, Offset(2));
    let asked = Start { subscription: other, ..asked(&scene, "k") };
    assert_eq!(started_by(&scene, &asked).await.1.offset, Offset(1));
}

/// By the database's clock, and whatever waits behind it; the answer says for how long.
pub async fn one_that_is_parked_is_not_due<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let hour = Duration::from_hours(1);
    let parked =
        |id, key, due_in| Park { failed: Some(failed(1, due_in)), ..waiting(&scene, id, 1, Some(key)) };
    let soon = Duration::from_millis(700);
    park(&scene, &[parked("later", "k", hour), parked("soon", "l", soon)]).await;
    park(&scene, &[waiting(&scene, "behind", 2, Some("k"))]).await;
    for _ in 0..2 {
        let head = start(&scene, &asked(&scene, "k")).await;
        let Head::NotDue(due_in) = head else { panic!("{head:?}") };
        assert!(just_begun(due_in, hour), "{due_in:?}");
    }
    assert_eq!(column(&scene, &D::id_hex("start_token"), "later").await, None);
    while let Head::NotDue(due_in) = start(&scene, &asked(&scene, "l")).await {
        assert!(due_in > Duration::ZERO && due_in <= soon, "{due_in:?}");
        tokio::time::sleep(due_in).await;
    }
    let (_, row) = started(&scene, "l").await;
    assert_eq!(row.attempts, 1);
    let since = row.since_first.expect("it was attempted");
    assert!(since >= Duration::from_mins(1) && since < Duration::from_mins(2), "{since:?}");
}

/// It is a head like any other until a person acts; one that does not block is none.
pub async fn a_letter_that_blocks_its_key_is_its_head<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let key = |key: &str| Some(BusinessKey::new(key.as_bytes()));
    let blocking = DeadLetter { blocks: true, key: key("k"), ..letter(&scene, "blocks", 5, None) };
    let letters = [
        blocking,
        DeadLetter { key: key("k"), ..letter(&scene, "first", 1, None) },
        DeadLetter { key: key("l"), ..letter(&scene, "released", 1, None) },
    ];
    let mut conn = scene.conn().await;
    D::bury(&mut conn, &LIMITS, &letters).await.expect("they are buried");
    park(&scene, &[waiting(&scene, "a", 3, Some("k")), waiting(&scene, "b", 9, Some("k"))]).await;
    park(&scene, &[waiting(&scene, "c", 2, Some("l"))]).await;
    // What comes before it is not held up.
    let (row, read) = started(&scene, "k").await;
    assert_eq!(read.offset, Offset(3));
    assert_eq!(finish(&scene, &row).await, Transition::Done);
    for _ in 0..2 {
        assert!(matches!(start(&scene, &asked(&scene, "k")).await, Head::Blocked));
    }
    let started_rows = format!("{} WHERE start_token IS NOT NULL", D::table("messages"));
    assert_eq!(scene.count(&started_rows).await, 0);
    assert_eq!(started(&scene, "l").await.1.offset, Offset(2));
}

/// The same token again finds its own start.
pub async fn one_whose_answer_was_lost_is_repeated<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    park(&scene, &[waiting(&scene, "a", 1, Some("k")), waiting(&scene, "b", 2, Some("k"))]).await;
    let asked = asked(&scene, "k");
    for _ in 0..3 {
        let (row, read) = started_by(&scene, &asked).await;
        assert_eq!((read.id.as_str(), row.token), ("a", asked.token));
    }
    let token = column(&scene, &D::id_hex("start_token"), "a").await;
    assert_eq!(token, Some(asked.token.as_uuid().simple().to_string()));
    let (row, _) = started_by(&scene, &asked).await;
    assert_eq!(finish(&scene, &row).await, Transition::Done);
}

/// Under our epoch nobody else starts: the earlier start was ours and its end was lost. Only the later token
/// ends the row, also where the clock went back and it does not look due.
pub async fn a_later_token_takes_it_over<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    park(&scene, &[Park { failed: Some(failed(1, Duration::ZERO)), ..waiting(&scene, "a", 1, Some("k")) }])
        .await;
    let (first, _) = started(&scene, "k").await;
    scene.sql(&format!("UPDATE {} SET due_at = {}", D::table("messages"), D::tomorrow())).await;
    let (second, row) = started(&scene, "k").await;
    assert_eq!((first.id, row.attempts), (second.id, 1));
    assert_eq!(finish(&scene, &first).await, Transition::Gone);
    assert_eq!(finish(&scene, &second).await, Transition::Done);
}

/// Two at once: both read the row, and one of them can end it.
pub async fn of_two_at_once_one_can_finish<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    for round in 0..10 {
        let key = format!("k-{round}");
        park(&scene, &[waiting(&scene, &key, 1, Some(&key))]).await;
        let ((one, _), (other, _)) = tokio::join!(started(&scene, &key), started(&scene, &key));
        let ends = [finish(&scene, &one).await, finish(&scene, &other).await];
        assert_eq!(ends.iter().filter(|end| **end == Transition::Done).count(), 1, "{ends:?}");
        assert!(ends.contains(&Transition::Gone), "{ends:?}");
    }
}

/// What is being finished is waited for: then the next one is the head, or, after a rollback, the same one.
pub async fn it_waits_for_a_finish_that_is_open<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    park(&scene, &[waiting(&scene, "a", 1, Some("k")), waiting(&scene, "b", 2, Some("k"))]).await;
    for (commits, next) in [(false, "a"), (true, "b")] {
        let (row, _) = started(&scene, "k").await;
        let (mut finishing, mut starting) = (scene.conn().await, scene.conn().await);
        let finished = D::finish(&mut finishing, &LIMITS, &row).await.expect("an answer");
        assert_eq!(finished, Transition::Done);
        let asked = asked(&scene, "k");
        let mut start = std::pin::pin!(D::start(&mut starting, &LIMITS, &asked));
        assert!(timeout(A_WHILE, &mut start).await.is_err(), "it did not wait");
        if commits {
            D::commit(&mut finishing).await.expect("it is open");
        } else {
            D::rollback(&mut finishing).await.expect("it is open");
        }
        let head = start.await.expect("an answer");
        let Head::Started(row) = head else { panic!("{head:?}") };
        assert_eq!(row.id, MessageId::new(next));
    }
}

/// Nothing is written, and nothing is read.
pub async fn another_epoch_starts_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    assert_eq!(park(&scene, &[waiting(&scene, "a", 1, Some("k"))]).await, Written::Done { duplicates: 0 });
    let asked = asked(&scene, "k");
    let stale = Start { fence: foreign(scene.fence.partition), ..asked };
    let mut conn = scene.conn().await;
    for _ in 0..2 {
        let head = D::start(&mut conn, &LIMITS, &stale).await.expect("an answer");
        assert!(matches!(head, Head::Fenced), "{head:?}");
    }
    assert_eq!(column(&scene, &D::id_hex("start_token"), "a").await, None);
    // The connection is good for more.
    let head = D::start(&mut conn, &LIMITS, &asked).await.expect("an answer");
    assert!(matches!(head, Head::Started(_)), "{head:?}");
}
