//! `SQLite` in a file: one process, for demos and small tools.

mod admit;
mod bury;
mod commit;
mod connection;
mod fence;
mod file;
mod flush;
mod migrate;
mod probe;
mod register;
mod take_over;

use std::sync::Arc;

use tokio::runtime::Handle;

pub(crate) use connection::Blocking;
pub use connection::SqliteConn;

use crate::dead_letter::DeadLetter;
use crate::identity::SubscriptionId;
use crate::tx::SqliteInner;

use super::{
    Admission, Admitted, Buried, Database, Flush, Flushed, MigrationStatus, RegisterError, Registration,
    Store, StoreError, TakeOver, TakenOver, TransactionLimits,
};

use self::file::DatabaseFile;

/// Names `SQLite` in `Handler<Sqlite>` and `Tx<'_, Sqlite>`.
#[derive(Clone, Copy, Debug)]
pub struct Sqlite;

/// The `SQLite` file in which the service's own tables and those of the inbox (`inbox_…`) live. Cheap
/// to clone.
///
/// It holds a lock on `<file>.inbox-lock` as long as it or a clone lives: one process of the inbox
/// at a time, since `SQLite` lets one transaction write at a time anyway. Others may read the file.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    file: Arc<DatabaseFile>,
}

impl SqliteStore {
    /// Opens the file, or makes it, and takes its lock. `path` is the file's path, or `sqlite://path`.
    ///
    /// # Errors
    /// [`StoreError::Address`] for a path that cannot work, [`StoreError::InUse`] if another process,
    /// or another store of this one, has the file, [`StoreError::Connect`] if it is not a database
    /// or cannot be written.
    pub async fn connect(path: &str) -> Result<Self, StoreError> {
        let runtime = Handle::try_current()
            .map_err(|error| StoreError::Connect(format!("the store works on tokio's threads: {error}")))?;
        let path = path.to_owned();
        let opened = runtime.spawn_blocking(move || DatabaseFile::open(&path)).await;
        let file = Arc::new(opened.map_err(|error| StoreError::connect(&error))??);
        SqliteConn::create(&file).await?.discard().await;
        Ok(Self { file })
    }

    /// Applies the migrations that are missing, each in its own transaction. Returns the number of
    /// the last migration.
    ///
    /// # Errors
    /// If a statement fails, or the schema is newer than this version.
    pub async fn migrate(&self) -> Result<i32, StoreError> {
        migrate::up(&self.file).await
    }

    /// Reverts migrations down to this number; 0 removes everything of the inbox but its version
    /// table. **Receipts go with it**: what Kafka still has takes effect again.
    ///
    /// # Errors
    /// If a statement fails.
    pub async fn migrate_down(&self, to: i32) -> Result<i32, StoreError> {
        migrate::down(&self.file, to).await
    }

    /// Which migrations the database has, and which this version knows.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub async fn migration_status(&self) -> Result<MigrationStatus, StoreError> {
        migrate::status(&self.file).await
    }
}

impl Store for SqliteStore {
    type Db = Sqlite;
}

impl Database for Sqlite {
    type Store = SqliteStore;
    type Conn = SqliteConn;
    type Inner<'a> = SqliteInner<'a>;

    const NAME: &'static str = "sqlite";
    /// One statement at a time runs on a connection.
    const PIPELINES: bool = false;

    async fn connect(store: &SqliteStore) -> Result<SqliteConn, StoreError> {
        SqliteConn::open(&store.file).await
    }

    async fn discard(conn: SqliteConn) {
        conn.discard().await;
    }

    async fn admit<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        admission: &'a Admission,
    ) -> Result<Admitted, StoreError> {
        admit::admit(conn, limits, admission).await
    }

    fn inner(conn: &mut SqliteConn) -> SqliteInner<'_> {
        conn.inner()
    }

    async fn commit(conn: &mut SqliteConn) -> Result<(), StoreError> {
        commit::commit(conn).await
    }

    async fn rollback(conn: &mut SqliteConn) -> Result<(), StoreError> {
        commit::rollback(conn).await
    }

    async fn bury<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        letters: &'a [DeadLetter],
    ) -> Result<Buried, StoreError> {
        bury::bury(conn, limits, letters).await
    }

    async fn register<'a>(
        conn: &'a mut SqliteConn,
        group: &'a str,
        subscriptions: &'a [Registration],
    ) -> Result<Vec<SubscriptionId>, RegisterError> {
        register::register(conn, group, subscriptions).await
    }

    async fn take_over<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        partition: &'a TakeOver,
    ) -> Result<TakenOver, StoreError> {
        take_over::take_over(conn, limits, partition).await
    }

    async fn flush<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        flushes: &'a [Flush],
    ) -> Result<Vec<Flushed>, StoreError> {
        flush::flush(conn, limits, flushes).await
    }

    async fn probe(store: &SqliteStore) -> Result<(), StoreError> {
        probe::probe(&store.file).await
    }

    async fn probe_through(conn: &mut SqliteConn) -> Result<(), StoreError> {
        probe::probe_through(conn).await
    }

    async fn check_schema(store: &SqliteStore) -> Result<(), StoreError> {
        match migrate::status(&store.file).await?.problem() {
            None => Ok(()),
            Some(problem) => Err(StoreError::Schema(problem)),
        }
    }
}
