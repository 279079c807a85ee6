//! Move: a subscription goes on in another consumer group, exactly where it was.

use std::time::Duration;

use inbox_core::store::{
    Admission, Admit, Admitted, Conflict, Departed, Fence, Flush, FlushWatermark, Flushed, LastRecord, Log,
    LogStart, MoveError, Moved, Park, RegisterError, RowState, Start, StoreError, TakeOver, Transition,
    Written,
};
use inbox_core::{DeadLetter, Offset, Partition, Timestamp};
use tokio::time::timeout;

use crate::conformance::accept_log;
use crate::conformance::bury::letter;
use crate::conformance::park::{failed, park, waiting};
use crate::conformance::start::{asked, finish, started, started_by};
use crate::dialect::Dialect;
use crate::scene::{A_WHILE, GROUP, LIMITS, Scene, ownership, registration};

const NAME: &str = "payments.reserve";
const THERE: &str = "billing";

async fn moves<D: Dialect>(scene: &Scene<D>, from: &str, to: &str) -> Result<Moved, MoveError> {
    D::move_subscription(&scene.store, NAME, from, to).await
}

async fn flush<D: Dialect>(scene: &Scene<D>, fence: Fence, number: i64, watermark: i64) -> Flushed {
    let mut conn = scene.conn().await;
    let moved = FlushWatermark { subscription: scene.subscription, watermark: Offset(watermark), time: None };
    let flush = Flush { fence, number, watermarks: vec![moved], last: None };
    D::flush(&mut conn, &LIMITS, &[flush]).await.expect("an answer")[0]
}

/// The scene's partition, as the other group takes it over.
fn there<D: Dialect>(scene: &Scene<D>) -> TakeOver {
    TakeOver { group: THERE.into(), ..ownership(3, vec![scene.subscription], 99) }
}

/// Watermark, receipts and dead letters are those of the other group's partition, and an id that was
/// there is a duplicate.
pub async fn it_goes_on_exactly_where_it_was<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.ids(["a", "b", "c"])).await.expect("they are written");
    let mut conn = scene.conn().await;
    let buried = D::bury(&mut conn, &LIMITS, &[letter(&scene, "dead", 3, None)]).await.expect("an answer");
    assert_eq!(buried, Written::Done { duplicates: 0 });
    flush(&scene, scene.fence, 0, 2).await;

    let moved = moves(&scene, GROUP, THERE).await.expect("it is moved");
    assert_eq!(moved, Moved { watermarks: 1, rows: 4 });
    let asked = there(&scene);
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("it is there");
    assert_ne!(taken.partition, scene.fence.partition);
    assert_eq!(taken.watermarks, [Offset(2)]);
    let strangers = format!("{} WHERE partition_id <> {}", D::table("messages"), taken.partition.0);
    assert_eq!(scene.count(&strangers).await, 0, "every row went over");

    let fence = Fence { partition: taken.partition, epoch: asked.epoch };
    let admission = scene.ids(["c", "dead", "fresh"]);
    let messages = admission.messages.iter().map(|m| Admit { partition: taken.partition, ..*m }).collect();
    let admission = Admission { fences: vec![fence], messages, ..admission };
    let Admitted::Open(conflicts) = D::admit(&mut conn, &LIMITS, &admission).await.expect("an answer") else {
        panic!("it is ours");
    };
    D::rollback(&mut conn).await.expect("it is open");
    let mut states: Vec<RowState> = conflicts.iter().map(|Conflict { state, .. }| *state).collect();
    states.sort_by_key(|state| *state == RowState::Done);
    assert_eq!(states, [RowState::Dead, RowState::Done]);
}

/// Open rows are the new owner's, in their order, also one that the old group had started: it ends nothing any
/// more.
pub async fn open_rows_go_with_it<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.subscribe("totals").await;
    let blocking = DeadLetter { blocks: true, ..letter(&scene, "blocks", 1, None) };
    let mut conn = scene.conn().await;
    D::bury(&mut conn, &LIMITS, std::slice::from_ref(&blocking)).await.expect("it is buried");
    let waits =
        Park { failed: Some(failed(1, Duration::from_hours(1))), ..waiting(&scene, "later", 4, Some("l")) };
    let theirs = Park { subscription: other, ..waiting(&scene, "theirs", 2, Some("k")) };
    park(&scene, &[waiting(&scene, "b", 3, Some("k")), waiting(&scene, "a", 2, Some("k")), waits, theirs])
        .await;
    let (old, _) = started(&scene, "k").await;

    let moved = moves(&scene, GROUP, THERE).await.expect("it is moved");
    assert_eq!(moved, Moved { watermarks: 1, rows: 4 });
    assert_eq!(D::finish(&mut conn, &LIMITS, &old).await.expect("an answer"), Transition::Fenced);
    let owned = there(&scene);
    let taken = D::take_over(&mut conn, &LIMITS, &owned).await.expect("it is there");
    let mut due: Vec<_> = taken.open.iter().map(|open| open.due_in.map(|due_in| due_in.is_zero())).collect();
    due.sort_unstable();
    assert_eq!(due, [None, Some(false), Some(true)], "the letter, what is parked, and what was started");
    let fence = Fence { partition: taken.partition, epoch: owned.epoch };
    for (id, offset) in [("a", 2), ("b", 3)] {
        let (row, read) = started_by(&scene, &Start { fence, ..asked(&scene, "k") }).await;
        assert_eq!((read.id.as_str(), read.offset), (id, Offset(offset)));
        assert_eq!(finish(&scene, &row).await, Transition::Done);
    }
    let stayed = format!("{} WHERE partition_id = {}", D::table("messages"), scene.fence.partition.0);
    assert_eq!(scene.count(&stayed).await, 1, "the other subscription's");
}

/// The log goes with it, and so does which of two logs a row is of.
pub async fn what_an_earlier_log_left_still_comes_first<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    park(&scene, &[waiting(&scene, "old", 7, Some("k"))]).await;
    let from = LogStart::At(Offset(0));
    let accepted = accept_log::accept(&scene, &accept_log::asked(Some(3), 1, from)).await;
    assert_eq!(accepted.expect("an answer"), [Partition(3)]);
    let fence = scene.take_over(3).await;
    park(&scene, &[Park { fence, ..waiting(&scene, "new", 4, Some("k")) }]).await;

    moves(&scene, GROUP, THERE).await.expect("it is moved");
    let owned = there(&scene);
    let taken = D::take_over(&mut conn, &LIMITS, &owned).await.expect("it is there");
    assert_eq!(taken.incarnation, 2);
    let fence = Fence { partition: taken.partition, epoch: owned.epoch };
    park(&scene, &[Park { fence, ..waiting(&scene, "newer", 5, Some("k")) }]).await;
    for id in ["old", "new", "newer"] {
        let (row, read) = started_by(&scene, &Start { fence, ..asked(&scene, "k") }).await;
        assert_eq!(read.id.as_str(), id);
        assert_eq!(finish(&scene, &row).await, Transition::Done);
    }
}

/// Nobody has a watermark between an acceptance and the next take-over: what is open goes with it all the
/// same, and which log it was of.
pub async fn open_rows_of_an_accepted_log_go_with_it<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    park(&scene, &[waiting(&scene, "old", 7, Some("k"))]).await;
    let accepted = accept_log::accept(&scene, &accept_log::asked(Some(3), 1, LogStart::Earliest)).await;
    assert_eq!(accepted.expect("an answer"), [Partition(3)]);
    assert_eq!(moves(&scene, GROUP, THERE).await.expect("it is moved"), Moved { watermarks: 0, rows: 1 });
    let owned = there(&scene);
    let taken = D::take_over(&mut conn, &LIMITS, &owned).await.expect("it is there");
    assert_eq!((taken.incarnation, taken.open.len()), (2, 1));
    let fence = Fence { partition: taken.partition, epoch: owned.epoch };
    park(&scene, &[Park { fence, ..waiting(&scene, "new", 0, Some("k")) }]).await;
    for id in ["old", "new"] {
        let (row, read) = started_by(&scene, &Start { fence, ..asked(&scene, "k") }).await;
        assert_eq!(read.id.as_str(), id);
        assert_eq!(finish(&scene, &row).await, Transition::Done);
    }
}

/// What passed the check of the old group's epoch is committed before, and nothing comes after.
pub async fn the_old_group_is_shut_out<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (mut old, store) = (scene.conn().await, scene.store.clone());
    scene.open(&mut old, "a").await;
    let mut moving = std::pin::pin!(D::move_subscription(&store, NAME, GROUP, THERE));
    assert!(timeout(A_WHILE, &mut moving).await.is_err(), "it did not wait");
    D::commit(&mut old).await.expect("it was there first");
    moving.await.expect("the transaction has ended");

    let partition = scene.fence.partition;
    let late = D::admit(&mut old, &LIMITS, &scene.ids(["b"])).await.expect("an answer");
    assert_eq!(late, Admitted::Fenced(vec![partition]));
    let buried = D::bury(&mut old, &LIMITS, &[letter(&scene, "c", 1, None)]).await.expect("an answer");
    assert_eq!(buried, Written::Fenced(vec![partition]));
    assert_eq!(flush(&scene, scene.fence, 0, 7).await, Flushed::Lost { partition });

    // It takes nothing over any more, and makes no watermark: also not of a partition that it never had.
    for partition in [3, 4] {
        let asked = ownership(partition, vec![scene.subscription], 0);
        let error = D::take_over(&mut old, &LIMITS, &asked).await.expect_err("it is elsewhere");
        let StoreError::Departed(Departed::Moved { .. }) = &error else { panic!("{error:?}") };
        for part in [NAME, "\"payments\"", "\"billing\"", "leave its handler out"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    assert_eq!(scene.count(&D::table("watermarks")).await, 1);
    let mut conn = scene.conn().await;
    let refused = D::register(&mut conn, GROUP, &[registration(NAME)]).await;
    assert!(matches!(refused, Err(RegisterError::OtherGroup { .. })), "{refused:?}");
}

/// A transaction in the way is named, nothing is changed, and the call can be repeated.
pub async fn it_gives_up_on_a_transaction_in_the_way<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut old = scene.conn().await;
    scene.open(&mut old, "a").await;
    let error = moves(&scene, GROUP, THERE).await.expect_err("it is in the way");
    match &error {
        MoveError::Busy { .. } => {
            let text = error.to_string();
            assert!(text.contains("orders partition 3") && text.contains("stop the service"), "{text}");
        }
        // Of SQLite the whole database is in use.
        MoveError::Store(StoreError::Busy(_)) => {}
        _ => panic!("{error:?}"),
    }
    D::commit(&mut old).await.expect("it is as it was");
    flush(&scene, scene.fence, 0, 1).await;
    moves(&scene, GROUP, THERE).await.expect("nothing is open");
}

/// Two in sequence and two at once; there and back.
pub async fn a_repeated_one_changes_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.ids(["a", "b"])).await.expect("they are written");
    let (one, other) = tokio::join!(moves(&scene, GROUP, THERE), moves(&scene, GROUP, THERE));
    let moved: Vec<_> = [one, other].into_iter().filter_map(Result::ok).map(|m| m.watermarks).collect();
    assert_eq!(moved.iter().sum::<u64>(), 1, "one of them moves it, the other one finds that or is refused");
    let again = moves(&scene, GROUP, THERE).await.expect("it is there");
    assert_eq!(again.watermarks, 0);
    let mut conn = scene.conn().await;
    let asked = there(&scene);
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("it is there");
    let fence = Fence { partition: taken.partition, epoch: asked.epoch };
    flush(&scene, fence, 0, 5).await;
    // A repeated call does not disturb those who consume it there.
    assert_eq!(moves(&scene, GROUP, THERE).await.expect("it is there"), Moved { watermarks: 0, rows: 0 });
    assert_eq!(flush(&scene, fence, 1, 6).await, Flushed::Written { partition: fence.partition, number: 2 });

    let back = moves(&scene, THERE, GROUP).await.expect("it is moved back");
    assert_eq!(back, Moved { watermarks: 1, rows: 2 });
    assert_eq!(flush(&scene, fence, 2, 8).await, Flushed::Lost { partition: fence.partition });
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(3, vec![scene.subscription], 99)).await;
    let taken = taken.expect("it is back");
    assert_eq!((taken.partition, taken.watermarks), (scene.fence.partition, vec![Offset(6)]));
}

/// Receipts that an interrupted call left behind are found by their ids, and follow at the next one.
pub async fn one_that_was_interrupted_is_finished_by_the_next<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.write(&scene.ids(["a", "b"])).await.expect("they are written");
    moves(&scene, GROUP, THERE).await.expect("it is moved");
    let left = scene.fence.partition.0;
    scene.sql(&format!("UPDATE {} SET partition_id = {left}", D::table("messages"))).await;
    assert_eq!(moves(&scene, GROUP, THERE).await.expect("it is there"), Moved { watermarks: 0, rows: 2 });
    assert_eq!(scene.count(&format!("{} WHERE partition_id = {left}", D::table("messages"))).await, 0);
}

/// The others of the old group keep their watermarks and rows, and their owner begins anew; whoever owns
/// the partition in the new group is not disturbed.
pub async fn the_others_of_the_groups_stay<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.subscribe("totals").await;
    let mut conn = scene.conn().await;
    let asked = ownership(3, vec![other], 7);
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
    let fence = Fence { partition: taken.partition, epoch: asked.epoch };
    let admission = Admission { subscription: other, fences: vec![fence], ..scene.ids(["a"]) };
    scene.write(&admission).await.expect("it is written");
    let theirs = D::register(&mut conn, THERE, &[registration("audit")]).await.expect("it is new");
    let asked = TakeOver { group: THERE.into(), ..ownership(3, theirs.clone(), 5) };
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
    let there = Fence { partition: taken.partition, epoch: asked.epoch };

    assert_eq!(moves(&scene, GROUP, THERE).await.expect("it is moved"), Moved { watermarks: 1, rows: 0 });
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(3, vec![other], 0)).await.expect("it is ours");
    assert_eq!(taken.watermarks, [Offset(7)]);
    let rows = format!("{} WHERE partition_id = {}", D::table("messages"), fence.partition.0);
    assert_eq!(scene.count(&rows).await, 1);

    let moved = FlushWatermark { subscription: theirs[0], watermark: Offset(6), time: None };
    let flush = Flush { fence: there, number: 0, watermarks: vec![moved], last: None };
    let flushed = D::flush(&mut conn, &LIMITS, &[flush]).await.expect("an answer");
    assert_eq!(flushed, [Flushed::Written { partition: there.partition, number: 1 }]);
    let both = vec![theirs[0], scene.subscription];
    let asked = TakeOver { group: THERE.into(), ..ownership(3, both, 99) };
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("it is there");
    assert_eq!((taken.partition, taken.watermarks), (there.partition, vec![Offset(6), Offset(0)]));
}

/// What is recorded of the log goes with the watermarks that mean it, and with it what ids made of offsets
/// have of it. Where others of the new group have watermarks for another log, it is refused.
pub async fn the_log_goes_with_it<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let record = |group: &str, what: &str| {
        format!("UPDATE {} SET {what} WHERE consumer_group = '{group}'", D::table("partitions"))
    };
    let log = Log { cluster: "c".into(), topic_id: Some("t".into()) };
    scene
        .sql(&record(GROUP, "incarnation = 4, cluster = 'c', topic_id = 't', last_offset = 1, last_time = 9"))
        .await;
    moves(&scene, GROUP, THERE).await.expect("it is moved");
    let mut conn = scene.conn().await;
    let asked = TakeOver { log: log.clone(), ..there(&scene) };
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("it is there");
    assert_eq!((taken.incarnation, &taken.log), (4, &log));
    assert_eq!(taken.last, Some(LastRecord { offset: Offset(1), time: Timestamp(9) }));

    // Back, where nobody is: whatever is left there of an earlier log is not its own.
    scene.sql(&record(GROUP, "incarnation = 7, cluster = 'old', topic_id = 'old'")).await;
    moves(&scene, THERE, GROUP).await.expect("it is moved back");
    let asked = TakeOver { log: log.clone(), ..ownership(3, vec![scene.subscription], 0) };
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("it is back");
    assert_eq!((taken.incarnation, &taken.log), (4, &log));

    let others = D::register(&mut conn, THERE, &[registration("audit")]).await.expect("it is new");
    let asked = TakeOver { group: THERE.into(), log: log.clone(), ..ownership(3, others, 5) };
    D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
    for other in ["incarnation = 5", "incarnation = 4, cluster = 'd'", "cluster = 'c', topic_id = 'u'"] {
        scene.sql(&record(THERE, other)).await;
        let error = moves(&scene, GROUP, THERE).await.expect_err("it is another log");
        assert!(matches!(error, MoveError::OtherLog { .. }), "{error:?}");
        assert!(error.to_string().contains("topic orders partition 3"), "{error}");
    }
    // Where it was not told yet, the log is the one that the moved watermarks mean: another one stops.
    scene.sql(&record(THERE, "cluster = NULL, topic_id = NULL")).await;
    moves(&scene, GROUP, THERE).await.expect("it may be the same");
    let asked = TakeOver { log: Log { topic_id: Some("u".into()), ..log.clone() }, ..there(&scene) };
    let error = D::take_over(&mut conn, &LIMITS, &asked).await.expect_err("it is another log");
    assert!(matches!(&error, StoreError::OtherLog(other) if other.recorded == log), "{error:?}");
}

/// Each says what is wrong.
pub async fn what_cannot_be_moved_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let unknown = D::move_subscription(&scene.store, "nobody", GROUP, THERE).await;
    assert!(matches!(unknown, Err(MoveError::Unknown { .. })), "{unknown:?}");
    let same = moves(&scene, GROUP, GROUP).await;
    assert!(matches!(same, Err(MoveError::NotTwoGroups { .. })), "{same:?}");
    let error = moves(&scene, "audit", THERE).await.expect_err("it is in neither");
    assert!(matches!(error, MoveError::OtherGroup { .. }), "{error:?}");
    assert!(error.to_string().contains("\"payments\""), "{error}");
    assert!(
        matches!(flush(&scene, scene.fence, 0, 1).await, Flushed::Written { .. }),
        "nobody was disturbed"
    );
}
