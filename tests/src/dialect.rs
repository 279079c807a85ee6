//! What a test needs of a database, beyond what the inbox does with it.

use std::future::Future;

use diesel::QueryResult;
use inbox_core::store::{MigrationStatus, MoveError, Moved, OnUnfinished, RemoveError, Removed, StoreError};
use inbox_core::{Database, Tx};

/// A database that the conformance suite runs against.
pub trait Dialect: Database {
    /// An empty database of one test's own. It goes away when this is dropped.
    type Fresh: Send + Sync;

    /// What a handler may send to fail in a way that ends its transaction.
    const ABORTING: &str;

    /// Makes an empty database.
    fn create() -> impl Future<Output = Self::Fresh> + Send;

    /// A store over it, as another process would have it, where there can be another.
    fn store(fresh: &Self::Fresh) -> impl Future<Output = Self::Store> + Send;

    /// The store's own method.
    fn migrate(store: &Self::Store) -> impl Future<Output = Result<i32, StoreError>> + Send;

    /// The store's own method.
    fn migrate_down(store: &Self::Store, to: i32) -> impl Future<Output = Result<i32, StoreError>> + Send;

    /// The store's own method.
    fn migration_status(
        store: &Self::Store,
    ) -> impl Future<Output = Result<MigrationStatus, StoreError>> + Send;

    /// The store's own method.
    fn move_subscription(
        store: &Self::Store,
        name: &str,
        from: &str,
        to: &str,
    ) -> impl Future<Output = Result<Moved, MoveError>> + Send;

    /// The store's own method.
    fn remove_subscription(
        store: &Self::Store,
        name: &str,
        group: &str,
        unfinished: OnUnfinished,
    ) -> impl Future<Output = Result<Removed, RemoveError>> + Send;

    /// Runs statements on a connection that is not of the inbox.
    fn execute(fresh: &Self::Fresh, sql: &str) -> impl Future<Output = ()> + Send;

    /// The column `value`, which must be text, of each row, asked on a connection that is not of the
    /// inbox.
    fn values(fresh: &Self::Fresh, sql: &str) -> impl Future<Output = Vec<Option<String>>> + Send;

    /// How a table of the inbox is called.
    fn table(name: &str) -> String;

    /// The bytes of a column as lower-case hex.
    fn hex(column: &str) -> String;

    /// A column with 128 bits as lower-case hex.
    fn id_hex(column: &str) -> String;

    /// A time that is a day away.
    fn tomorrow() -> &'static str;

    /// Milliseconds since 1970 of a column with a time, as text.
    fn millis(column: &str) -> String;

    /// A statement as a handler sends it.
    fn send(tx: &mut Tx<'_, Self>, sql: &str) -> impl Future<Output = QueryResult<usize>> + Send;

    /// `batch_execute` as a handler could call it.
    fn send_batch(tx: &mut Tx<'_, Self>, sql: &str) -> impl Future<Output = QueryResult<()>> + Send;
}
