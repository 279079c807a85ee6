//! Register: a subscription is recorded with its group and rules.

use inbox_core::store::{First, RegisterError, Registration};
use inbox_core::{Offset, Partition, Topic};

use crate::dialect::Dialect;
use crate::scene::{GROUP, LIMITS, Scene, ownership, registration};

/// A number once given stays, and is no other subscription's.
pub async fn a_subscription_keeps_its_number<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let asked = [registration("totals"), registration("payments.reserve")];
    let first = D::register(&mut conn, GROUP, &asked).await.expect("one is new, one known");
    assert_eq!(first[1], scene.subscription);
    assert_ne!(first[0], first[1]);
    let again = D::register(&mut conn, GROUP, &asked).await.expect("both are known");
    assert_eq!(again, first);
}

/// Two groups would each deliver everything.
pub async fn another_group_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let refused = D::register(&mut conn, "billing", &[registration("payments.reserve")]).await;
    let Err(error @ RegisterError::OtherGroup { .. }) = refused else { panic!("{refused:?}") };
    let text = error.to_string();
    for part in ["payments.reserve", "\"payments\"", "\"billing\"", "new subscription name"] {
        assert!(text.contains(part), "{text}");
    }
    // The connection is good for more.
    D::register(&mut conn, GROUP, &[registration("payments.reserve")]).await.expect("its own group");
}

/// Old messages would get other ids, or another order.
pub async fn another_rule_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let recorded = registration("payments.reserve");
    let changed = [
        ("id", Registration { id_rule: "offset".into(), ..recorded.clone() }, "offset"),
        ("key", Registration { key_rule: "record".into(), ..recorded.clone() }, "record"),
    ];
    for (rule, wanted, text_of_it) in changed {
        let refused = D::register(&mut conn, GROUP, &[wanted]).await;
        let Err(error @ RegisterError::OtherRule { .. }) = refused else { panic!("{refused:?}") };
        let text = error.to_string();
        for part in ["payments.reserve", rule, text_of_it, "keep the rule"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

/// Subscriptions of one start are recorded together.
pub async fn one_that_is_refused_leaves_nothing_of_the_others<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let asked = [
        registration("totals"),
        Registration { id_rule: "offset".into(), ..registration("payments.reserve") },
    ];
    D::register(&mut conn, GROUP, &asked).await.expect_err("its id rule is another");
    assert_eq!(scene.count(&D::table("subscriptions")).await, 1);
}

/// What is said of a new one is written down with it, for all its partitions, and only then.
pub async fn a_new_one_begins_where_it_is_told<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let at = |offset| {
        First::At(vec![
            (Topic::new("orders"), Partition(3), Offset(offset)),
            (Topic::new("other"), Partition(0), Offset(1)),
        ])
    };
    let totals = |offset| Registration { first: at(offset), ..registration("totals") };
    let ids = D::register(&mut conn, GROUP, &[totals(40)]).await.expect("it is new");
    let again = D::register(&mut conn, GROUP, &[totals(70)]).await.expect("it is known");
    assert_eq!(again, ids);
    let taken = D::take_over(&mut conn, &LIMITS, &ownership(3, ids, 5)).await.expect("it is taken over");
    assert_eq!(taken.watermarks, [Offset(40)]);
    let recorded =
        format!("{} WHERE first_watermark = watermark AND watermark IN (1, 40)", D::table("watermarks"));
    assert_eq!(scene.count(&recorded).await, 2);
}

/// A group that the database does not know, but Kafka does, has to say where it begins.
pub async fn an_unknown_group_that_was_somewhere_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    let unsaid = |name| Registration { first: First::Unsaid, ..registration(name) };
    let asked = [Registration { first: First::Earliest, ..registration("a") }, unsaid("b")];
    let refused = D::register(&mut conn, "moved", &asked).await;
    let Err(error @ RegisterError::StartUnsaid { .. }) = refused else { panic!("{refused:?}") };
    for part in ["\"moved\"", "subscription b", "start = committed"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(scene.count(&D::table("subscriptions")).await, 1, "nothing of it is left");
    // Of a known group a new subscription begins at the first record.
    let known = D::register(&mut conn, GROUP, &[unsaid("c"), unsaid("payments.reserve")]).await;
    assert_eq!(known.expect("the group is known")[1], scene.subscription);
}

/// Two processes start at the same time.
pub async fn twice_at_once_is_once<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let names: Vec<String> = (0..5).map(|n| format!("subscription-{n}")).collect();
    let asked: Vec<_> = names.iter().map(|name| registration(name)).collect();
    let (mut left, mut right) = (scene.conn().await, scene.conn().await);
    let (left, right) =
        tokio::join!(D::register(&mut left, GROUP, &asked), D::register(&mut right, GROUP, &asked));
    assert_eq!(left.expect("registered"), right.expect("registered"));
    assert_eq!(scene.count(&D::table("subscriptions")).await, 6);
}
