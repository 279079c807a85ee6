//! Take over: a new epoch, which shuts the old one out (P4).

use inbox_core::store::{Admission, Admitted, Buried, Fence, Flush, FlushWatermark, Flushed, StoreError};
use inbox_core::{FailureClass, Offset};
use tokio::time::timeout;

use crate::conformance::bury::letter;
use crate::dialect::Dialect;
use crate::scene::{A_WHILE, IMPATIENT, LIMITS, Scene, ownership};

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
    assert_eq!(buried, Buried::Fenced(vec![partition]));
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
    assert!(matches!(error, StoreError::Statement { class: FailureClass::Unclear, .. }), "{error:?}");
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
