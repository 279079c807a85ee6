//! Accept log: a new incarnation, once, and everything of the old log is forgotten.

use inbox_core::store::{
    AcceptLog, Admission, Admitted, Fence, Flush, FlushWatermark, LastRecord, Log, LogStart, OtherLog,
    StoreError, TakeOver, TakenOver,
};
use inbox_core::{Offset, Partition, Timestamp, Topic};
use tokio::time::timeout;

use crate::dialect::Dialect;
use crate::scene::{A_WHILE, GROUP, LIMITS, Scene, ownership};

fn log(cluster: &str, topic_id: Option<&str>) -> Log {
    Log { cluster: cluster.into(), topic_id: topic_id.map(Into::into) }
}

async fn take_over<D: Dialect>(scene: &Scene<D>, asked: &TakeOver) -> TakenOver {
    D::take_over(&mut scene.conn().await, &LIMITS, asked).await.expect("nothing is open")
}

async fn taken_from<D: Dialect>(scene: &Scene<D>, partition: i32, first: i64, log: Log) -> TakenOver {
    take_over(scene, &TakeOver { log, ..ownership(partition, vec![scene.subscription], first) }).await
}

/// Accepts.
pub async fn accept<D: Dialect>(scene: &Scene<D>, asked: &AcceptLog) -> Result<Vec<Partition>, StoreError> {
    D::accept_log(&mut scene.conn().await, asked).await
}

/// That a partition's log, or each one's, is another one.
#[must_use]
pub fn asked(partition: Option<i32>, incarnation: i32, from: LogStart) -> AcceptLog {
    let partition = partition.map(Partition);
    AcceptLog { group: GROUP.into(), topic: Topic::new("orders"), partition, incarnation, from }
}

/// What the broker says first is kept. Under another log nothing is taken over: neither the epoch, nor
/// where a new subscription begins.
pub async fn the_first_log_is_recorded<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let first = log("one", None);
    assert_eq!(taken_from(&scene, 4, 0, first.clone()).await.log, first);
    let with_id = log("one", Some("id"));
    assert_eq!(taken_from(&scene, 4, 0, with_id.clone()).await.log, with_id, "an id that comes later");
    let fence = scene.take_over(4).await;
    let added = scene.subscribe("totals").await;
    for other in [log("two", None), log("one", Some("other"))] {
        let asked = TakeOver { log: other, ..ownership(4, vec![scene.subscription, added], 77) };
        let refused = D::take_over(&mut scene.conn().await, &LIMITS, &asked).await;
        let expected = OtherLog { recorded: with_id.clone(), incarnation: 1 };
        assert!(matches!(&refused, Err(StoreError::OtherLog(other)) if *other == expected), "{refused:?}");
    }
    let admission = Admission { fences: vec![fence], ..scene.admission([]) };
    assert_eq!(scene.write(&admission).await.expect("an answer"), Admitted::Open(vec![]));
    // Who says nothing does not contradict.
    let asked = TakeOver { log: log("", None), ..ownership(4, vec![added], 5) };
    assert_eq!(take_over(&scene, &asked).await.watermarks, [Offset(5)]);
}

/// It comes and goes with the watermark, and one without does not erase it.
pub async fn the_last_record_is_kept<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let last = LastRecord { offset: Offset(8), time: Timestamp(-5) };
    for (number, last) in [(0, Some(last)), (1, None)] {
        let moved = FlushWatermark { subscription: scene.subscription, watermark: Offset(9), time: None };
        let flush = Flush { fence: scene.fence, number, watermarks: vec![moved], last };
        D::flush(&mut conn, &LIMITS, &[flush]).await.expect("an answer");
    }
    assert_eq!(taken_from(&scene, 3, 0, Log::default()).await.last, Some(last));
    assert_eq!(taken_from(&scene, 4, 0, Log::default()).await.last, None);
}

/// As if it was never here, but for its incarnation and the number that Kafka has.
pub async fn another_log_begins_at_its_first_record<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let last = Some(LastRecord { offset: Offset(8), time: Timestamp(5) });
    let moved = FlushWatermark { subscription: scene.subscription, watermark: Offset(9), time: None };
    let flush = Flush { fence: scene.fence, number: 0, watermarks: vec![moved], last };
    D::flush(&mut conn, &LIMITS, &[flush]).await.expect("an answer");
    let accepted = accept(&scene, &asked(Some(3), 1, LogStart::Earliest)).await.expect("an answer");
    assert_eq!(accepted, [Partition(3)]);
    let taken = taken_from(&scene, 3, 2, log("two", Some("new"))).await;
    assert_eq!((taken.incarnation, taken.flush_number), (2, 1));
    assert_eq!(taken.watermarks, [Offset(2)]);
    assert_eq!((taken.log, taken.last), (log("two", Some("new")), None));
}

/// Where a person says, also below where it was.
pub async fn another_log_begins_where_it_is_told<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    for (incarnation, offset) in [(1, 50), (2, 7)] {
        let from = LogStart::At(Offset(offset));
        assert_eq!(accept(&scene, &asked(None, incarnation, from)).await.expect("an answer"), [Partition(3)]);
        assert_eq!(taken_from(&scene, 3, 0, Log::default()).await.watermarks, [Offset(offset)]);
    }
}

/// Twice in sequence and twice at once: the incarnation that is named is accepted once. Others than
/// those that are named stay.
pub async fn an_incarnation_is_accepted_once<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.take_over(4).await;
    let one = asked(Some(3), 1, LogStart::Earliest);
    let (left, right) = tokio::join!(accept(&scene, &one), accept(&scene, &one));
    let mut accepted = left.expect("an answer");
    accepted.extend(right.expect("an answer"));
    assert_eq!(accepted, [Partition(3)]);
    assert_eq!(accept(&scene, &one).await.expect("an answer"), []);
    // Of all, those that have it still.
    let all = asked(None, 1, LogStart::Earliest);
    assert_eq!(accept(&scene, &all).await.expect("an answer"), [Partition(4)]);
    let foreign = AcceptLog { group: "others".into(), ..asked(None, 2, LogStart::Earliest) };
    assert_eq!(accept(&scene, &foreign).await.expect("an answer"), []);
    assert_eq!(taken_from(&scene, 3, 0, Log::default()).await.incarnation, 2);
}

/// Whoever still owns the partition can write nothing more, and what it has open is waited for.
pub async fn it_ends_the_ownership<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut owner = scene.conn().await;
    scene.open(&mut owner, "a").await;
    let one = asked(Some(3), 1, LogStart::Earliest);
    let mut accepting = std::pin::pin!(accept(&scene, &one));
    assert!(timeout(A_WHILE, &mut accepting).await.is_err(), "it did not wait");
    D::commit(&mut owner).await.expect("it was there first");
    assert_eq!(accepting.await.expect("an answer"), [Partition(3)]);
    let late = D::admit(&mut owner, &LIMITS, &scene.ids(["b"])).await.expect("an answer");
    assert_eq!(late, Admitted::Fenced(vec![scene.fence.partition]));
    let Fence { partition, .. } = scene.take_over(3).await;
    assert_eq!(partition, scene.fence.partition);
}
