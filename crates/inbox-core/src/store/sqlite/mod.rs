//! `SQLite` in a file: one process, for demos and small tools.

mod accept_log;
mod admit;
mod bury;
mod bury_open;
mod commit;
mod connection;
mod fence;
mod file;
mod finish;
mod flush;
mod kept;
mod migrate;
mod move_subscription;
mod park;
mod postpone;
mod probe;
mod register;
mod remove;
mod start;
mod take_over;

use std::sync::Arc;

use tokio::runtime::Handle;

pub(crate) use connection::Blocking;
pub use connection::SqliteConn;

use crate::dead_letter::DeadLetter;
use crate::identity::{Partition, SubscriptionId};
use crate::tx::SqliteInner;

use super::{
    AcceptLog, Admission, Admitted, Database, Failed, Flush, Flushed, Head, MigrationStatus, MoveError,
    Moved, OnUnfinished, Park, RegisterError, Registration, RemoveError, Removed, Start, Started, Store,
    StoreError, TakeOver, TakenOver, TransactionLimits, Transition, Written,
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

    /// Lets a partition that was stopped because its log is another one be consumed: see [`AcceptLog`].
    /// A process that still has it begins anew. Returns the partitions that were accepted: none, if the
    /// group has none of them, or they have another incarnation by now.
    ///
    /// # Errors
    /// If a statement fails, or a transaction of the partition does not end within five seconds: nothing
    /// was changed.
    pub async fn accept_log(&self, asked: &AcceptLog) -> Result<Vec<Partition>, StoreError> {
        let mut conn = <Self as Store>::Db::connect(self).await?;
        let accepted = accept_log::accept_log(&mut conn, asked).await;
        <Self as Store>::Db::discard(conn).await;
        accepted
    }

    /// Lets a subscription go on in another consumer group, exactly where it was: nothing of it is handled
    /// twice, and nothing is left out. Its receipts, dead letters and watermarks go with it; its rules
    /// stay. Other subscriptions of either group go on as they were.
    ///
    /// Services of the old group that still run its handler are shut out at once, in the same transaction:
    /// when they find that out, `consume` ends with an error that names the new group. Start the
    /// handler in a service of the new group whenever you like; before the move it is refused there.
    ///
    /// A call that was interrupted is repeated: where the subscription is in the new group already, it
    /// only finishes what is left. Receipts follow in batches after the move itself, and are found by their
    /// ids all the time.
    ///
    /// # Errors
    /// See [`MoveError`]: groups that are not two, an unknown subscription, another group than `from`, a
    /// transaction in the way. The call waits a few seconds at most before it gives up on
    /// one.
    pub async fn move_subscription(&self, name: &str, from: &str, to: &str) -> Result<Moved, MoveError> {
        move_subscription::move_subscription(&self.file, name, from, to).await
    }

    /// Forgets a subscription of this consumer group: its watermarks, its receipts, and, if `unfinished`
    /// says so, what it could not finish. **One of the same name that comes later is a new one**: it begins
    /// as its `start` says, and from `earliest` it sees every message again.
    ///
    /// Take its handler out of every service first. A service that still runs it is shut out in the same
    /// transaction, and `consume` ends with an error that names it; started again, it is refused unless its
    /// `start` is set. A subscription whose handler is only left out for a while needs no call: it keeps
    /// its place.
    ///
    /// A call that was interrupted is repeated: its rows are deleted in batches after it was marked as
    /// removed, when nobody can ask for them any more. Repeat it before one of the same name is added: that
    /// one would be removed.
    ///
    /// # Errors
    /// See [`RemoveError`]: an unknown subscription, another group, unfinished messages under
    /// [`OnUnfinished::Refuse`], a transaction in the way. The call waits a few seconds at
    /// most before it gives up on one.
    pub async fn remove_subscription(
        &self,
        name: &str,
        group: &str,
        unfinished: OnUnfinished,
    ) -> Result<Removed, RemoveError> {
        remove::remove(&self.file, name, group, unfinished).await
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
    ) -> Result<Written, StoreError> {
        bury::bury(conn, limits, letters).await
    }

    async fn park<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        messages: &'a [Park],
    ) -> Result<Written, StoreError> {
        park::park(conn, limits, messages).await
    }

    async fn start<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        start: &'a Start,
    ) -> Result<Head, StoreError> {
        start::start(conn, limits, start).await
    }

    async fn finish<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        row: &'a Started,
    ) -> Result<Transition, StoreError> {
        finish::finish(conn, limits, row).await
    }

    async fn postpone<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        row: &'a Started,
        failed: &'a Failed,
    ) -> Result<Transition, StoreError> {
        postpone::postpone(conn, limits, row, failed).await
    }

    async fn bury_open<'a>(
        conn: &'a mut SqliteConn,
        limits: &'a TransactionLimits,
        row: &'a Started,
        letter: &'a DeadLetter,
    ) -> Result<Transition, StoreError> {
        bury_open::bury_open(conn, limits, row, letter).await
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

    async fn accept_log<'a>(
        conn: &'a mut SqliteConn,
        asked: &'a AcceptLog,
    ) -> Result<Vec<Partition>, StoreError> {
        accept_log::accept_log(conn, asked).await
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
