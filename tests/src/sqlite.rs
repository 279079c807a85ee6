//! An `SQLite` file for each test.

use diesel::connection::SimpleConnection;
use diesel::sql_types::{Nullable, Text};
use diesel::{Connection, QueryResult, QueryableByName, SqliteConnection};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use inbox_core::store::{MigrationStatus, MoveError, Moved, OnUnfinished, RemoveError, Removed, StoreError};
use inbox_core::{Sqlite, SqliteStore, Tx};
use tempfile::TempDir;

use crate::dialect::Dialect;

/// A folder of its own with a database file and the one store of this process over it.
#[derive(Debug)]
pub struct FreshFile {
    folder: TempDir,
    store: SqliteStore,
}

impl FreshFile {
    /// Makes an empty database.
    pub async fn create() -> Self {
        let folder = TempDir::new().expect("a folder for temporary files");
        let path = folder.path().join("test.db");
        let store = SqliteStore::connect(path.to_str().expect("a path in UTF-8")).await.expect("a new file");
        Self { folder, store }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> String {
        self.folder.path().join("test.db").to_str().expect("a path in UTF-8").to_owned()
    }

    /// Runs this on a connection that is not of the inbox.
    async fn outside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> QueryResult<T> + Send + 'static,
    ) -> T {
        let path = self.path();
        let done = tokio::task::spawn_blocking(move || {
            let mut sqlite = SqliteConnection::establish(&path).expect("the file opens");
            sqlite.batch_execute("PRAGMA busy_timeout = 5000").expect("a setting");
            work(&mut sqlite)
        });
        done.await.expect("no panic").expect("a good statement")
    }
}

#[derive(QueryableByName)]
struct Value {
    #[diesel(sql_type = Nullable<Text>)]
    value: Option<String>,
}

impl Dialect for Sqlite {
    type Fresh = FreshFile;

    /// An error alone ends the statement, not the transaction.
    const ABORTING: &str = "INSERT OR ROLLBACK INTO inbox_probe (only_row) VALUES (1)";

    async fn create() -> FreshFile {
        FreshFile::create().await
    }

    /// There is no other process: the lock refuses it.
    async fn store(fresh: &FreshFile) -> SqliteStore {
        fresh.store.clone()
    }

    async fn migrate(store: &SqliteStore) -> Result<i32, StoreError> {
        store.migrate().await
    }

    async fn migrate_down(store: &SqliteStore, to: i32) -> Result<i32, StoreError> {
        store.migrate_down(to).await
    }

    async fn migration_status(store: &SqliteStore) -> Result<MigrationStatus, StoreError> {
        store.migration_status().await
    }

    async fn move_subscription(
        store: &SqliteStore,
        name: &str,
        from: &str,
        to: &str,
    ) -> Result<Moved, MoveError> {
        store.move_subscription(name, from, to).await
    }

    async fn remove_subscription(
        store: &SqliteStore,
        name: &str,
        group: &str,
        unfinished: OnUnfinished,
    ) -> Result<Removed, RemoveError> {
        store.remove_subscription(name, group, unfinished).await
    }

    async fn execute(fresh: &FreshFile, sql: &str) {
        let sql = sql.to_owned();
        fresh.outside(move |sqlite| sqlite.batch_execute(&sql)).await;
    }

    async fn values(fresh: &FreshFile, sql: &str) -> Vec<Option<String>> {
        let sql = sql.to_owned();
        let rows: Vec<Value> =
            fresh.outside(move |sqlite| diesel::RunQueryDsl::load(diesel::sql_query(sql), sqlite)).await;
        rows.into_iter().map(|row| row.value).collect()
    }

    fn table(name: &str) -> String {
        format!("inbox_{name}")
    }

    fn hex(column: &str) -> String {
        // The hex of null is an empty text.
        format!("iif({column} IS NULL, NULL, lower(hex({column})))")
    }

    fn id_hex(column: &str) -> String {
        Self::hex(column)
    }

    fn tomorrow() -> &'static str {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER) + 86400000"
    }

    fn millis(column: &str) -> String {
        format!("CAST({column} AS TEXT)")
    }

    async fn send(tx: &mut Tx<'_, Self>, sql: &str) -> QueryResult<usize> {
        diesel::sql_query(sql).execute(tx).await
    }

    async fn send_batch(tx: &mut Tx<'_, Self>, sql: &str) -> QueryResult<()> {
        tx.batch_execute(sql).await
    }
}
