//! Probe: is the database up (P6).

use crate::dialect::Dialect;
use crate::scene::Scene;

/// It answers, and again.
pub async fn a_healthy_database_answers<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    for _ in 0..3 {
        D::probe(&scene.store).await.expect("it is up");
    }
}

/// Up means that a row of ours can be written.
pub async fn a_database_without_the_schema_is_not_healthy<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    D::migrate_down(&scene.store, 0).await.expect("it goes down");
    D::probe(&scene.store).await.expect_err("there is no row to write");
    D::migrate(&scene.store).await.expect("it goes up");
    D::probe(&scene.store).await.expect("it is up");
}

/// A handler that takes its time must not pause every partition.
pub async fn a_transaction_that_is_open_is_no_outage<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    let mut conn = scene.conn().await;
    scene.open(&mut conn, "a").await;
    D::probe(&scene.store).await.expect("it is up");
    D::commit(&mut conn).await.expect("nothing was disturbed");
}
