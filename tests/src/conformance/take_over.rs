//! Take over: a new epoch, which shuts the old one out (P4).

use std::time::Duration;

use inbox_core::store::{
    Admission, Admitted, Fence, Flush, FlushWatermark, Flushed, Head, LogStart, OpenKey, Park, Start,
    Started, StoreError, Transition, Written,
};
use inbox_core::{BusinessKey, DeadLetter, FailureClass, KeyId, Offset, Partition};
use tokio::time::timeout;

use crate::conformance::accept_log;
use crate::conformance::bury::letter;
use crate::conformance::park::{failed, park, waiting};
use crate::conformance::start::{asked, finish, started, started_by};
use crate::dialect::Dialect;
use crate::scene::{A_WHILE, IMPATIENT, LIMITS, Scene, just_begun, ownership, stored};

/// Where a subscription begins on a partition that nobody has had.
pub async fn a_new_partition_begins_at_the_first_watermark<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(4, vec![scene.subscription], 42)).await;
    let taken = taken.expect("nobody else is here");
    assert_ne!(taken.partition, scene.fence.partition);
    assert_eq!((taken.incarnation, taken.flush_number), (1, 0));
    assert_eq!(taken.watermarks, [Offset(42)]);
}

/// The database decides where a later owner begins, not what it asks for.
pub async fn a_later_owner_finds_the_watermarks<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let moved = FlushWatermark { subscription: scene.subscription, watermark: Offset(17), time: None };
    let flush = Flush { fence: scene.fence, number: 0, watermarks: vec![moved], last: None };
    D::flush(&mut conn, &LIMITS, &[flush]).await.expect("it is flushed");
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(3, vec![scene.subscription], 99)).await;
    let taken = taken.expect("nothing is open");
    assert_eq!((taken.partition, taken.flush_number), (scene.fence.partition, 1));
    assert_eq!(taken.watermarks, [Offset(17)]);
}

/// One that joins later has a watermark of its own, and answers come in the order of the question.
pub async fn a_later_subscription_begins_where_it_is_told<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let later = scene.subscribe("totals").await;
    let mut conn = scene.conn().await;
    let asked = ownership(3, vec![later, scene.subscription], 30);
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
    assert_eq!(taken.watermarks, [Offset(30), Offset(0)]);
}

/// Kafka has a higher number than a restored database: the next flush goes on above it.
pub async fn a_higher_number_is_taken_over<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let mut asked = ownership(3, vec![scene.subscription], 0);
    for (raise, before, after) in [(Some(7), 0, 7), (Some(5), 7, 7), (None, 7, 7)] {
        asked.raise_number_to = raise;
        let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
        assert_eq!((taken.number_before, taken.flush_number), (before, after));
    }
    let fence = Fence { partition: scene.fence.partition, epoch: asked.epoch };
    let flush = Flush { fence, number: 7, watermarks: vec![], last: None };
    let flushed = D::flush(&mut conn, &LIMITS, &[flush]).await.expect("an answer");
    assert_eq!(flushed, [Flushed::Written { partition: fence.partition, number: 8 }]);
}

/// Admission, burial and flush check the epoch, each in its transaction.
pub async fn the_old_epoch_can_write_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let partition = scene.fence.partition;
    let new = scene.take_over(3).await;
    assert_eq!(new.partition, partition);

    let admitted = scene.write(&scene.ids(["a"])).await.expect("an answer");
    assert_eq!(admitted, Admitted::Fenced(vec![partition]));
    let mut conn = scene.conn().await;
    let buried = D::bury(&mut conn, &LIMITS, &[letter(&scene, "b", 1, None)]).await.expect("an answer");
    assert_eq!(buried, Written::Fenced(vec![partition]));
    let parked = D::park(&mut conn, &LIMITS, &[waiting(&scene, "c", 2, None)]).await.expect("an answer");
    assert_eq!(parked, Written::Fenced(vec![partition]));
    let flush = Flush { fence: scene.fence, number: 0, watermarks: vec![], last: None };
    let flushed = D::flush(&mut conn, &LIMITS, &[flush]).await.expect("an answer");
    assert_eq!(flushed, [Flushed::Lost { partition }]);
    assert_eq!(scene.messages().await, 0);

    // The connections are good for more, and the new owner's epoch works.
    let admission = Admission { fences: vec![new], ..scene.ids(["a"]) };
    let admitted = D::admit(&mut conn, &LIMITS, &admission).await.expect("an answer");
    assert_eq!(admitted, Admitted::Open(vec![]));
    D::commit(&mut conn).await.expect("it commits");
    assert_eq!(scene.messages().await, 1);
}

/// Whatever had started a row has ended: neither under the old epoch nor with the old token is it ended, and
/// the new owner starts it.
pub async fn what_was_started_is_open_again<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    park(&scene, &[waiting(&scene, "a", 1, Some("k")), waiting(&scene, "b", 2, Some("l"))]).await;
    let (old, _) = started(&scene, "k").await;
    let (asked, mut conn) = (asked(&scene, "k"), scene.conn().await);
    let new = scene.take_over(3).await;
    let is_started =
        format!("{} WHERE start_token IS NOT NULL OR started_at IS NOT NULL", D::table("messages"));
    assert_eq!(scene.count(&is_started).await, 0);

    let head = D::start(&mut conn, &LIMITS, &asked).await.expect("an answer");
    assert!(matches!(head, Head::Fenced), "{head:?}");
    let failed = failed(1, Duration::ZERO);
    let letter = letter(&scene, "a", 1, None);
    for (fence, answer) in [(old.fence, Transition::Fenced), (new, Transition::Gone)] {
        let old = Started { fence, ..old };
        let answers = [
            D::finish(&mut conn, &LIMITS, &old).await.expect("an answer"),
            D::postpone(&mut conn, &LIMITS, &old, &failed).await.expect("an answer"),
            D::bury_open(&mut conn, &LIMITS, &old, &letter).await.expect("an answer"),
        ];
        assert_eq!(answers, [answer; 3]);
    }
    let (row, read) = started_by(&scene, &Start { fence: new, ..asked }).await;
    assert_eq!((read.id.as_str(), read.attempts), ("a", 0));
    assert_eq!(finish(&scene, &row).await, Transition::Done);
}

/// Each key that has a head once, with the time until it is due: of the subscriptions that are asked for, in
/// this partition.
pub async fn keys_with_open_rows_are_told<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (totals, audit) = (scene.subscribe("totals").await, scene.subscribe("audit").await);
    let elsewhere = scene.take_over(4).await;
    let hour = Duration::from_hours(1);
    let later = |park: Park| Park { failed: Some(failed(1, hour)), ..park };
    let key = |key: &str| KeyId::of(Some(&BusinessKey::new(key.as_bytes())), stored("any"));
    let messages = [
        later(waiting(&scene, "parked", 1, Some("parked"))),
        waiting(&scene, "behind", 2, Some("parked")),
        // The head is due, whatever is parked behind it.
        waiting(&scene, "due", 3, Some("due")),
        later(waiting(&scene, "parked behind", 4, Some("due"))),
        waiting(&scene, "no key", 5, None),
        waiting(&scene, "behind a letter", 9, Some("blocked")),
        waiting(&scene, "before a letter", 6, Some("not yet")),
        Park { subscription: totals, ..later(waiting(&scene, "due", 3, Some("due"))) },
        Park { subscription: audit, ..waiting(&scene, "due", 3, Some("due")) },
        Park { fence: elsewhere, ..waiting(&scene, "elsewhere", 1, Some("elsewhere")) },
    ];
    park(&scene, &messages).await;
    let blocking = |id, offset, key: &str| DeadLetter {
        blocks: true,
        key: Some(BusinessKey::new(key.as_bytes())),
        ..letter(&scene, id, offset, None)
    };
    let released = DeadLetter { blocks: false, ..blocking("released", 1, "released") };
    let letters =
        [blocking("x", 8, "blocked"), blocking("y", 8, "not yet"), blocking("z", 8, "alone"), released];
    let mut conn = scene.conn().await;
    D::bury(&mut conn, &LIMITS, &letters).await.expect("they are buried");
    scene.write(&scene.ids(["done"])).await.expect("it is written");

    for _ in 0..2 {
        let asked = ownership(3, vec![totals, scene.subscription], 0);
        let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
        let mut open: Vec<_> = taken
            .open
            .iter()
            .map(|open| {
                let due = match open.due_in {
                    None => "never",
                    Some(Duration::ZERO) => "now",
                    Some(due_in) => {
                        assert!(just_begun(due_in, hour), "{due_in:?}");
                        "later"
                    }
                };
                (open.subscription, open.key, due)
            })
            .collect();
        let ours = scene.subscription;
        let mut expected = vec![
            (ours, key("parked"), "later"),
            (ours, key("due"), "now"),
            (ours, KeyId::of(None, stored("no key")), "now"),
            (ours, key("blocked"), "never"),
            (ours, key("not yet"), "now"),
            (ours, key("alone"), "never"),
            (totals, key("due"), "later"),
        ];
        open.sort_unstable();
        expected.sort_unstable();
        assert_eq!(open, expected);
    }
    // Another partition's are its own.
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(4, vec![scene.subscription], 0)).await;
    let open = taken.expect("nothing is open").open;
    let head = OpenKey {
        subscription: scene.subscription,
        key: key("elsewhere"),
        business_key: Some(BusinessKey::new(b"elsewhere")),
        offset: Offset(1),
        due_in: Some(Duration::ZERO),
    };
    assert_eq!(open, [head]);
}

/// A key's head is what an earlier log left of it, whatever offsets the next one has; of each key, the first
/// that is found and those after it.
pub async fn heads_are_of_the_earliest_log<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let hour = Duration::from_hours(1);
    let later = |park: Park| Park { failed: Some(failed(1, hour)), ..park };
    let keys = ["k", "l", "m"];
    let old = keys.map(|key| later(waiting(&scene, &format!("old-{key}"), 9, Some(key))));
    park(&scene, &old).await;
    let accepted = accept_log::accept(&scene, &accept_log::asked(Some(3), 1, LogStart::Earliest)).await;
    assert_eq!(accepted.expect("an answer"), [Partition(3)]);
    let fence = scene.take_over(3).await;
    let new = keys.map(|key| Park { fence, ..waiting(&scene, &format!("new-{key}"), 0, Some(key)) });
    park(&scene, &new).await;
    let asked = ownership(3, vec![scene.subscription], 0);
    let taken = D::take_over(&mut scene.conn().await, &LIMITS, &asked).await.expect("nothing is open");
    assert_eq!(taken.open.len(), keys.len());
    for open in taken.open {
        assert_eq!(open.offset, Offset(9));
        assert!(open.due_in.is_some_and(|due_in| just_begun(due_in, hour)), "{:?}", open.due_in);
    }
}

/// What passed the check of the old epoch is committed before the new one begins.
pub async fn it_waits_for_an_open_transaction_of_the_old_owner<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (mut old, mut new) = (scene.conn().await, scene.conn().await);
    scene.open(&mut old, "a").await;
    let asked = ownership(3, vec![scene.subscription], 0);
    let mut taking = std::pin::pin!(D::take_over(&mut new, &LIMITS, &asked));
    assert!(timeout(A_WHILE, &mut taking).await.is_err(), "it did not wait");
    D::commit(&mut old).await.expect("it was there first");
    taking.await.expect("the old transaction has ended");
    assert_eq!(scene.messages().await, 1);
    let late = D::admit(&mut old, &LIMITS, &scene.ids(["b"])).await.expect("an answer");
    assert_eq!(late, Admitted::Fenced(vec![scene.fence.partition]));
}

/// A stopped process does not make the new owner hang.
pub async fn it_gives_up_after_the_lock_limit_and_can_be_tried_again<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (mut old, mut new) = (scene.conn().await, scene.conn().await);
    scene.open(&mut old, "a").await;
    let asked = ownership(3, vec![scene.subscription], 0);
    let error = D::take_over(&mut new, &IMPATIENT, &asked).await.expect_err("the old one is open");
    // Nobody's fault: a probe will tell.
    assert!(
        matches!(error, StoreError::Busy(_) | StoreError::Statement { class: FailureClass::Unclear, .. }),
        "{error:?}"
    );
    D::discard(new).await;
    D::rollback(&mut old).await.expect("it is open");
    let mut new = scene.conn().await;
    D::take_over(&mut new, &IMPATIENT, &asked).await.expect("nothing is open");
}

/// The last one to come is the owner, and the other finds that out.
pub async fn of_two_at_once_one_epoch_wins<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (mut left, mut right) = (scene.conn().await, scene.conn().await);
    let asked = [(); 2].map(|()| ownership(5, vec![scene.subscription], 0));
    let (taken_left, taken_right) = tokio::join!(
        D::take_over(&mut left, &LIMITS, &asked[0]),
        D::take_over(&mut right, &LIMITS, &asked[1]),
    );
    let partition = taken_left.expect("both are served").partition;
    assert_eq!(taken_right.expect("both are served").partition, partition);
    let mut owners = 0;
    for asked in asked {
        let fences = vec![Fence { partition, epoch: asked.epoch }];
        let admission = Admission { fences, ..scene.ids(["a"]) };
        match D::admit(&mut left, &LIMITS, &admission).await.expect("an answer") {
            Admitted::Open(conflicts) => {
                assert!(conflicts.is_empty());
                owners += 1;
                D::rollback(&mut left).await.expect("it is open");
            }
            Admitted::Fenced(lost) => assert_eq!(lost, [partition]),
            Admitted::Waiting => panic!("for what?"),
        }
    }
    assert_eq!(owners, 1);
}
