//! Flush: watermark and number, compared and set (P2, P10).

use inbox_core::store::{Fence, Flush, FlushWatermark, Flushed};
use inbox_core::{Offset, SubscriptionId, Timestamp};

use crate::dialect::Dialect;
use crate::scene::{LIMITS, Scene, foreign, ownership};

async fn flush<D: Dialect>(scene: &Scene<D>, flushes: &[Flush]) -> Vec<Flushed> {
    let mut conn = scene.conn().await;
    D::flush(&mut conn, &LIMITS, flushes).await.expect("an answer")
}

fn to(fence: Fence, number: i64, subscription: SubscriptionId, watermark: i64) -> Flush {
    let moved = FlushWatermark { subscription, watermark: Offset(watermark), time: None };
    Flush { fence, number, watermarks: vec![moved], last: None }
}

async fn watermarks<D: Dialect>(
    scene: &Scene<D>,
    partition: i32,
    subscriptions: Vec<SubscriptionId>,
) -> Vec<Offset> {
    let mut conn = scene.conn().await;
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(partition, subscriptions, 0)).await;
    taken.expect("nothing is open").watermarks
}

/// A number from before, or ahead, belongs to another history.
pub async fn the_number_is_compared_and_raised<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let partition = scene.fence.partition;
    let at = |number, watermark| [to(scene.fence, number, scene.subscription, watermark)];
    assert_eq!(flush(&scene, &at(0, 5)).await, [Flushed::Written { partition, number: 1 }]);
    assert_eq!(flush(&scene, &at(1, 6)).await, [Flushed::Written { partition, number: 2 }]);
    assert_eq!(flush(&scene, &at(1, 7)).await, [Flushed::Lost { partition }]);
    assert_eq!(flush(&scene, &at(3, 8)).await, [Flushed::Lost { partition }]);
    // A number alone may move too: Kafka is told of it.
    let number_alone = [Flush { fence: scene.fence, number: 2, watermarks: vec![], last: None }];
    assert_eq!(flush(&scene, &number_alone).await, [Flushed::Written { partition, number: 3 }]);
    assert_eq!(watermarks(&scene, 3, vec![scene.subscription]).await, [Offset(6)]);
}

/// A late answer of an earlier moment changes nothing.
pub async fn a_watermark_never_goes_down<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    flush(&scene, &[to(scene.fence, 0, scene.subscription, 9)]).await;
    flush(&scene, &[to(scene.fence, 1, scene.subscription, 4)]).await;
    flush(&scene, &[to(scene.fence, 2, scene.subscription, i64::MIN)]).await;
    assert_eq!(watermarks(&scene, 3, vec![scene.subscription]).await, [Offset(9)]);
    let scene_fence = scene.take_over(3).await;
    flush(&scene, &[to(scene_fence, 3, scene.subscription, i64::MAX)]).await;
    assert_eq!(watermarks(&scene, 3, vec![scene.subscription]).await, [Offset(i64::MAX)]);
}

/// Even with the right number.
pub async fn another_epoch_writes_nothing<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let partition = scene.fence.partition;
    let lost = flush(&scene, &[to(foreign(partition), 0, scene.subscription, 5)]).await;
    assert_eq!(lost, [Flushed::Lost { partition }]);
    let mut conn = scene.conn().await;
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(3, vec![scene.subscription], 0)).await;
    let taken = taken.expect("nothing is open");
    assert_eq!((taken.flush_number, taken.watermarks), (0, vec![Offset(0)]));
}

/// Answers come in the order of the question.
pub async fn one_lost_partition_does_not_hold_up_the_others<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let (second, third) = (scene.take_over(4).await, scene.take_over(5).await);
    let flushes = [
        to(third, 0, scene.subscription, 3),
        to(foreign(second.partition), 0, scene.subscription, 2),
        to(scene.fence, 0, scene.subscription, 1),
    ];
    let answers = [
        Flushed::Written { partition: third.partition, number: 1 },
        Flushed::Lost { partition: second.partition },
        Flushed::Written { partition: scene.fence.partition, number: 1 },
    ];
    assert_eq!(flush(&scene, &flushes).await, answers);
    let mut after = Vec::new();
    for partition in [3, 4, 5] {
        after.extend(watermarks(&scene, partition, vec![scene.subscription]).await);
    }
    assert_eq!(after, [Offset(1), Offset(0), Offset(3)]);
}

async fn time<D: Dialect>(scene: &Scene<D>) -> Option<i64> {
    let sql = format!("SELECT {} AS value FROM {}", D::millis("time_at_watermark"), D::table("watermarks"));
    let value = scene.values(&sql).await.remove(0);
    value.map(|millis| millis.parse().expect("a number"))
}

async fn flush_time<D: Dialect>(scene: &Scene<D>, number: i64, time: Option<i64>) {
    let time = time.map(Timestamp);
    let moved = FlushWatermark { subscription: scene.subscription, watermark: Offset(number), time };
    let flushed =
        flush(scene, &[Flush { fence: scene.fence, number, watermarks: vec![moved], last: None }]).await;
    assert_eq!(flushed, [Flushed::Written { partition: scene.fence.partition, number: number + 1 }]);
}

/// Records may say any time: that at the watermark lies between 1970 and now.
pub async fn a_time_without_sense_is_kept_within_sense<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let sensible = 1_700_000_000_123;
    flush_time(&scene, 0, Some(sensible)).await;
    assert_eq!(time(&scene).await, Some(sensible));
    for (number, past) in [(1, -1), (2, i64::MIN)] {
        flush_time(&scene, number, Some(past)).await;
        assert_eq!(time(&scene).await, Some(0));
    }
    for (number, future) in [(3, i64::MAX), (4, 1 << 55), (5, Timestamp::now().0 + 3_600_000)] {
        let before = Timestamp::now().0;
        flush_time(&scene, number, Some(future)).await;
        let stored = time(&scene).await.expect("a time");
        // The server's clock may be another.
        assert!((before - 60_000..before + 60_000).contains(&stored), "{stored}");
    }
}

/// A watermark that moved over nothing finished says nothing about time.
pub async fn no_time_keeps_the_old_one<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    flush_time(&scene, 0, None).await;
    assert_eq!(time(&scene).await, None);
    flush_time(&scene, 1, Some(1_700_000_000_000)).await;
    flush_time(&scene, 2, None).await;
    assert_eq!(time(&scene).await, Some(1_700_000_000_000));
}

/// Each subscription has a watermark of its own.
pub async fn a_subscription_that_is_not_named_stays<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let other = scene.subscribe("totals").await;
    let both = vec![scene.subscription, other];
    let mut conn = scene.conn().await;
    let asked = ownership(3, both.clone(), 2);
    let taken = D::take_over(&mut conn, &LIMITS, &asked).await.expect("nothing is open");
    let fence = Fence { partition: taken.partition, epoch: asked.epoch };
    flush(&scene, &[to(fence, 0, other, 8)]).await;
    assert_eq!(watermarks(&scene, 3, both.clone()).await, [Offset(0), Offset(8)]);
    let fence = scene.take_over(3).await;
    let watermarks_of = [(scene.subscription, 5), (other, 9)];
    let moved = watermarks_of.map(|(subscription, to)| FlushWatermark {
        subscription,
        watermark: Offset(to),
        time: None,
    });
    flush(&scene, &[Flush { fence, number: 1, watermarks: moved.into(), last: None }]).await;
    assert_eq!(watermarks(&scene, 3, both).await, [Offset(5), Offset(9)]);
}
