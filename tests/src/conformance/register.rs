//! Register: a subscription is recorded with its group and rules.

use inbox_core::store::{RegisterError, Registration};

use crate::dialect::Dialect;
use crate::scene::{GROUP, Scene, registration};

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
