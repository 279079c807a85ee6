//! Remove: a subscription is forgotten.

use inbox_core::Offset;
use inbox_core::store::{
    Admission, Admitted, Departed, Fence, First, Flush, Flushed, OnUnfinished, RegisterError, Registration,
    RemoveError, Removed, StoreError, Transition,
};
use tokio::time::timeout;

use crate::conformance::bury::letter;
use crate::conformance::park::{park, waiting};
use crate::conformance::start::started;
use crate::dialect::Dialect;
use crate::scene::{A_WHILE, GROUP, LIMITS, Scene, ownership, registration};

const NAME: &str = "payments.reserve";

async fn remove<D: Dialect>(scene: &Scene<D>, unfinished: OnUnfinished) -> Result<Removed, RemoveError> {
    D::remove_subscription(&scene.store, NAME, GROUP, unfinished).await
}

/// One of the same name is a new one, with a number and watermarks of its own.
pub async fn one_of_the_same_name_begins_anew<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.ids(["a", "b"])).await.expect("they are written");
    assert_eq!(remove(&scene, OnUnfinished::Refuse).await.expect("it is removed"), Removed { rows: 2 });
    assert_eq!(scene.messages().await, 0);
    assert_eq!(scene.count(&D::table("watermarks")).await, 0);

    let anew = scene.subscribe(NAME).await;
    assert_ne!(anew, scene.subscription);
    let mut conn = scene.conn().await;
    let asked = ownership(3, vec![anew], 0);
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
    assert_eq!(taken.watermarks, [Offset(0)]);
    let fence = Fence { partition: taken.partition, epoch: asked.epoch };
    let admission = Admission { subscription: anew, fences: vec![fence], ..scene.ids(["a"]) };
    let admitted = scene.write(&admission).await.expect("an answer");
    assert_eq!(admitted, Admitted::Open(vec![]), "it sees the message again");
    // And once more.
    assert_eq!(remove(&scene, OnUnfinished::Refuse).await.expect("it is removed"), Removed { rows: 1 });
    assert_ne!(scene.subscribe(NAME).await, anew);
}

/// A service that was running starts again by itself: it must not handle everything a second time.
pub async fn one_of_the_same_name_has_to_say_where_it_begins<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.subscribe("totals").await;
    remove(&scene, OnUnfinished::Refuse).await.expect("it is removed");
    let mut conn = scene.conn().await;
    let asked = |first| [Registration { first, ..registration(NAME) }];
    let refused = D::register(&mut conn, GROUP, &asked(First::Unsaid)).await;
    let Err(error @ RegisterError::WasRemoved { .. }) = refused else { panic!("{refused:?}") };
    for part in [NAME, "\"payments\"", "start = committed"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let first = D::register(&mut conn, GROUP, &asked(First::Earliest)).await.expect("it is said");
    let again = D::register(&mut conn, GROUP, &asked(First::Unsaid)).await.expect("it is there");
    assert_eq!(first, again);
}

/// What passed the check of the epoch is committed before, and nothing comes after.
pub async fn who_still_runs_it_is_shut_out<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (mut old, store) = (scene.conn().await, scene.store.clone());
    scene.open(&mut old, "a").await;
    let mut removing = std::pin::pin!(D::remove_subscription(&store, NAME, GROUP, OnUnfinished::Refuse));
    assert!(timeout(A_WHILE, &mut removing).await.is_err(), "it did not wait");
    D::commit(&mut old).await.expect("it was there first");
    assert_eq!(removing.await.expect("the transaction has ended"), Removed { rows: 1 });

    let partition = scene.fence.partition;
    let late = D::admit(&mut old, &LIMITS, &scene.ids(["b"])).await.expect("an answer");
    assert_eq!(late, Admitted::Fenced(vec![partition]));
    let flush = Flush { fence: scene.fence, number: 0, watermarks: vec![], last: None };
    let flushed = D::flush(&mut old, &LIMITS, &[flush]).await.expect("an answer");
    assert_eq!(flushed, [Flushed::Lost { partition }]);
    // Also where one of the same name has come meanwhile.
    for _ in 0..2 {
        let asked = ownership(3, vec![scene.subscription], 0);
        let error = D::take_over(&mut old, &LIMITS, &asked).await.expect_err("it is gone");
        assert!(matches!(error, StoreError::Departed(Departed::Removed { .. })), "{error:?}");
        assert!(error.to_string().contains("leave its handler out"), "{error}");
        scene.subscribe(NAME).await;
    }
    assert_eq!(scene.count(&D::table("watermarks")).await, 0);
}

/// What is not finished is lost only by explicit wish.
pub async fn what_is_not_finished_is_kept_or_discarded<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.ids(["a"])).await.expect("it is written");
    let mut conn = scene.conn().await;
    for (id, offset) in [("b", 1), ("c", 2)] {
        D::bury(&mut conn, &LIMITS, &[letter(&scene, id, offset, None)]).await.expect("it is buried");
    }
    park(&scene, &["d", "e", "f"].map(|id| waiting(&scene, id, 3, Some(id)))).await;
    let (row, _) = started(&scene, "e").await;
    let error = remove(&scene, OnUnfinished::Refuse).await.expect_err("some are not finished");
    assert!(matches!(error, RemoveError::Unfinished { open: 3, dead: 2, .. }), "{error:?}");
    // Nothing was changed: its owner goes on.
    let flush = Flush { fence: scene.fence, number: 0, watermarks: vec![], last: None };
    let flushed = D::flush(&mut conn, &LIMITS, &[flush]).await.expect("an answer");
    assert_eq!(flushed, [Flushed::Written { partition: scene.fence.partition, number: 1 }]);
    assert_eq!(remove(&scene, OnUnfinished::Discard).await.expect("it is wished"), Removed { rows: 6 });
    assert_eq!(D::finish(&mut conn, &LIMITS, &row).await.expect("an answer"), Transition::Fenced);
    assert_eq!(scene.messages().await, 0);
}

/// Two in sequence and two at once, and one that finds what an interrupted one left behind.
pub async fn a_repeated_one_finishes_it<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.subscribe("totals").await;
    scene.write(&scene.ids(["a", "b"])).await.expect("they are written");
    scene.write(&Admission { subscription: other, ..scene.ids(["a"]) }).await.expect("it is written");
    let (one, two) = tokio::join!(remove(&scene, OnUnfinished::Refuse), remove(&scene, OnUnfinished::Refuse));
    let rows: u64 = [one, two].into_iter().filter_map(Result::ok).map(|removed| removed.rows).sum();
    assert_eq!(rows, 2, "together they removed it, or one found the other at work");
    let left = format!("UPDATE {} SET subscription_id = {}", D::table("messages"), scene.subscription.0);
    scene.sql(&left).await;
    assert_eq!(remove(&scene, OnUnfinished::Refuse).await.expect("it is finished"), Removed { rows: 1 });
    assert_eq!(remove(&scene, OnUnfinished::Refuse).await.expect("nothing is left"), Removed { rows: 0 });
}

/// The others of the group keep their watermarks and rows.
pub async fn only_its_own_rows_go<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.subscribe("totals").await;
    let mut conn = scene.conn().await;
    let asked = ownership(3, vec![scene.subscription, other], 7);
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
    let fences = vec![Fence { partition: taken.partition, epoch: asked.epoch }];
    for subscription in [scene.subscription, other] {
        let admission = Admission { subscription, fences: fences.clone(), ..scene.ids(["a", "b"]) };
        scene.write(&admission).await.expect("it is written");
    }
    assert_eq!(remove(&scene, OnUnfinished::Refuse).await.expect("it is removed"), Removed { rows: 2 });
    let of_other = format!("{} WHERE subscription_id = {}", D::table("messages"), other.0);
    assert_eq!((scene.count(&of_other).await, scene.messages().await), (2, 2));
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(3, vec![other], 0)).await.expect("it is ours");
    assert_eq!(taken.watermarks, [Offset(7)]);
}

/// Each says what is wrong.
pub async fn what_cannot_be_removed_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let nobody = D::remove_subscription(&scene.store, "nobody", GROUP, OnUnfinished::Discard).await;
    assert!(matches!(nobody, Err(RemoveError::Unknown { .. })), "{nobody:?}");
    let error = D::remove_subscription(&scene.store, NAME, "billing", OnUnfinished::Discard).await;
    let error = error.expect_err("it is another group's");
    assert!(matches!(error, RemoveError::OtherGroup { .. }), "{error:?}");
    let mut old = scene.conn().await;
    scene.open(&mut old, "a").await;
    let error = remove(&scene, OnUnfinished::Discard).await.expect_err("it is in the way");
    assert!(matches!(error, RemoveError::Busy { .. } | RemoveError::Store(_)), "{error:?}");
    D::commit(&mut old).await.expect("nothing was changed");
    assert_eq!(scene.messages().await, 1);
}
