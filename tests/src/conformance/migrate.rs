//! Migrate: numbered schema changes, under a lock.

use inbox_core::store::{MigrationStatus, StoreError};

use crate::dialect::Dialect;
use crate::scene::Scene;

async fn applied<D: Dialect>(store: &D::Store) -> i32 {
    D::migration_status(store).await.expect("an answer").applied
}

/// Every migration has a way back, and forth again.
pub async fn up_down_up<D: Dialect>() {
    let fresh = D::create().await;
    let store = D::store(&fresh).await;
    let MigrationStatus { applied: before, known } = D::migration_status(&store).await.expect("an answer");
    assert_eq!(before, 0);
    assert_eq!(D::migrate(&store).await.expect("up"), known);
    assert_eq!(D::migrate(&store).await.expect("nothing to do"), known);
    D::check_schema(&store).await.expect("it is the one");
    for to in (0..known).rev() {
        assert_eq!(D::migrate_down(&store, to).await.expect("down"), to);
        assert_eq!(applied::<D>(&store).await, to);
    }
    assert_eq!(D::migrate(&store).await.expect("up again"), known);
    D::check_schema(&store).await.expect("it is the one");
    D::probe(&store).await.expect("it works");
}

/// Every process of a service migrates when it starts.
pub async fn several_at_once<D: Dialect>() {
    let fresh = D::create().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = D::store(&fresh).await;
        tasks.spawn(async move { D::migrate(&store).await });
    }
    let store = D::store(&fresh).await;
    let known = D::migration_status(&store).await.expect("an answer").known;
    for migrated in tasks.join_all().await {
        assert_eq!(migrated.expect("one does it, the others wait"), known);
    }
    D::check_schema(&store).await.expect("it is the one");
}

/// The error says what to call.
pub async fn a_missing_schema_names_the_call<D: Dialect>() {
    let fresh = D::create().await;
    let store = D::store(&fresh).await;
    let error = D::check_schema(&store).await.expect_err("nothing is there");
    assert!(matches!(error, StoreError::Schema(_)), "{error:?}");
    assert!(error.to_string().contains("store.migrate()"), "{error}");
}

/// A rolled-back deploy must not work on a schema that it does not know.
pub async fn a_newer_schema_is_refused<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.sql(&format!("INSERT INTO {} (number, name) VALUES (99, 'later')", D::table("migrations"))).await;
    for refused in [D::check_schema(&scene.store).await, D::migrate(&scene.store).await.map(|_| ())] {
        let error = refused.expect_err("it is newer");
        assert!(matches!(error, StoreError::Schema(_)), "{error:?}");
        assert!(error.to_string().contains("99") && error.to_string().contains("update"), "{error}");
    }
    // Nothing is taken back that this version does not know either.
    assert_eq!(D::migrate_down(&scene.store, 0).await.expect("an answer"), 99);
    D::probe(&scene.store).await.expect("the schema is there");
}

/// The service's own tables are not touched.
pub async fn going_down_leaves_only_the_version_table<D: Dialect>() {
    let scene = Scene::<D>::new().await;
    scene.sql("INSERT INTO effects (id) VALUES (1)").await;
    D::migrate_down(&scene.store, 0).await.expect("down");
    assert_eq!(scene.count("effects").await, 1);
    assert_eq!(scene.count(&D::table("migrations")).await, 0);
}
