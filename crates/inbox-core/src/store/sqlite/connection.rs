//! One connection, and whose turn it is.
//!
//! `SQLite` lets one transaction write at a time. Each lane has a connection of its own all the same:
//! a connection in an unknown state is thrown away without disturbing another lane. What they share
//! is a fair queue of turns in the store, because `SQLite`'s own wait sleeps and tries again, which
//! wastes the time between and lets a lane starve. Its `busy_timeout` remains for what is not of
//! the inbox: the service's own connections, a person's shell.
//!
//! `SQLite` has no limits for statements and idle transactions. It needs none of the second: a stopped
//! process holds the whole database, there is no other owner that would wait. A statement cannot be
//! cut off: it runs to its end, whoever waits for it.

use std::error::Error;
use std::sync::Arc;

use diesel::connection::{CacheSize, SimpleConnection};
use diesel::sql_types::Text;
use diesel::{Connection, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};
use diesel_async::sync_connection_wrapper::{SpawnBlocking, SyncConnectionWrapper};
use futures_util::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Duration, Instant, timeout};

use crate::store::{StoreError, TransactionLimits};
use crate::tx::{KeptStatements, SqliteInner};

use super::file::DatabaseFile;

/// Diesel's blocking connection on tokio's blocking threads.
pub(crate) type Blocking = SyncConnectionWrapper<SqliteConnection, ToItsEnd>;

/// Runs the connection's work to its end, whether or not somebody still waits for it.
///
/// The driver's own way waits in `drop`: it blocks a thread of the runtime when a future is dropped,
/// and panics on a runtime of one thread and while one shuts down. Here the work that runs keeps
/// the connection alive, and the connection is closed after it.
pub struct ToItsEnd(Handle);

impl SpawnBlocking for ToItsEnd {
    fn spawn_blocking<'a, R>(
        &mut self,
        task: impl FnOnce() -> R + Send + 'static,
    ) -> BoxFuture<'a, Result<R, Box<dyn Error + Send + Sync + 'static>>>
    where
        R: Send + 'static,
    {
        self.0.spawn_blocking(task).map_err(Box::from).boxed()
    }

    fn get_runtime() -> Self {
        Self(Handle::current())
    }
}

/// One connection to the database file, owned by one lane or task.
pub struct SqliteConn {
    // First, so that it is closed before its turn ends.
    conn: Blocking,
    /// Ours while a transaction is open, or may be.
    turn: Option<OwnedMutexGuard<()>>,
    kept: KeptStatements,
    /// Numbers the transactions of this connection, and names their marks.
    transaction: u64,
    file: Arc<DatabaseFile>,
}

#[derive(QueryableByName)]
struct JournalMode {
    #[diesel(sql_type = Text)]
    journal_mode: String,
}

impl SqliteConn {
    pub(super) async fn open(file: &Arc<DatabaseFile>) -> Result<Self, StoreError> {
        file.check_exists()?;
        Self::create(file).await
    }

    /// Makes the file if there is none.
    pub(super) async fn create(file: &Arc<DatabaseFile>) -> Result<Self, StoreError> {
        let mut runtime = ToItsEnd(Handle::current());
        let path = file.path().to_owned();
        let opened = runtime.spawn_blocking(move || connect(&path)).await;
        let conn = opened.map_err(|error| StoreError::connect(&*error))??;
        Ok(Self {
            conn: SyncConnectionWrapper::with_runtime(conn, runtime),
            turn: None,
            kept: KeptStatements::default(),
            transaction: 0,
            file: Arc::clone(file),
        })
    }

    /// Rolls back what is open, after the statement that runs, and closes.
    pub(super) async fn discard(mut self) {
        // Nothing to do about a failure: closing rolls back too.
        let _ = self.conn.spawn_blocking(|sqlite| sqlite.batch_execute("ROLLBACK")).await;
        // The last connection to close writes the log back into the database: not on this thread.
        let _ = Handle::current().spawn_blocking(move || drop(self)).await;
    }

    pub(super) fn inner(&mut self) -> SqliteInner<'_> {
        SqliteInner { conn: &mut self.conn, kept: &self.kept }
    }

    /// Waits until no other transaction of this process is open. `None`: not within the limit.
    /// Answers with the rest of the limit.
    pub(super) async fn wait_for_turn(&mut self, limit: Duration) -> Option<Duration> {
        let since = Instant::now();
        if self.turn.is_none() {
            self.turn = Some(timeout(limit, Arc::clone(&self.file.turns).lock_owned()).await.ok()?);
        }
        Some(limit.saturating_sub(since.elapsed()))
    }

    pub(super) fn end_turn(&mut self) {
        self.turn = None;
    }

    /// The savepoint that marks this transaction: it goes away with it, so releasing it directly
    /// before COMMIT proves that the transaction is the one that was begun.
    pub(super) fn mark(&self) -> String {
        format!("inbox_transaction_{}", self.transaction)
    }

    /// What begins a transaction, after `wait_for_turn`: it takes the write lock at once, because a
    /// transaction that has read first cannot wait for it.
    pub(super) fn begin(
        &mut self,
        lock: Duration,
    ) -> impl FnOnce(&mut SqliteConnection) -> Result<(), StoreError> + use<> {
        self.transaction += 1;
        let sql = format!("PRAGMA busy_timeout = {}; BEGIN IMMEDIATE", millis(lock));
        let overflowed = self.kept.overflowed();
        move |sqlite| {
            if overflowed {
                // The only way to empty the driver's cache is to switch it off and on.
                sqlite.set_prepared_statement_cache_size(CacheSize::Disabled);
                sqlite.set_prepared_statement_cache_size(CacheSize::Unbounded);
            }
            Ok(sqlite.batch_execute(&sql)?)
        }
    }

    /// Runs this on the connection in one go and to its end, even if the future is dropped.
    pub(super) async fn run<R: Send + 'static, E: From<StoreError> + Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut SqliteConnection) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E> {
        self.conn.spawn_blocking(move |sqlite| Ok(work(sqlite))).await.map_err(StoreError::from)?
    }

    /// Another transaction did not end within the limit.
    pub(super) fn no_turn(limits: &TransactionLimits) -> StoreError {
        StoreError::Busy(format!(
            "another transaction of this process holds the database for more than {:?}",
            limits.lock
        ))
    }

    /// Begins a transaction with its mark, after `wait_for_turn`, and runs this in it. It stays open if the
    /// answer is one that is kept open; else it is rolled back.
    pub(super) async fn keep_open<R: Send + 'static>(
        &mut self,
        lock: Duration,
        work: impl FnOnce(&mut SqliteConnection) -> Result<R, StoreError> + Send + 'static,
        is_kept: impl Fn(&R) -> bool + Copy + Send + 'static,
    ) -> Result<R, StoreError> {
        let begin = self.begin(lock);
        let mark = self.mark();
        let done = self
            .run(move |sqlite| {
                begin(sqlite)?;
                let done = sqlite
                    .batch_execute(&format!("SAVEPOINT {mark}"))
                    .map_err(StoreError::from)
                    .and_then(|()| work(sqlite));
                if !done.as_ref().is_ok_and(is_kept) {
                    sqlite.batch_execute("ROLLBACK")?;
                }
                done
            })
            .await;
        if !done.as_ref().is_ok_and(is_kept) {
            self.end_turn();
        }
        done
    }

    /// A whole transaction in one go: it never stays open.
    pub(super) async fn transaction<R: Send + 'static, E: From<StoreError> + Send + 'static>(
        &mut self,
        limits: &TransactionLimits,
        work: impl FnOnce(&mut SqliteConnection) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E> {
        let Some(lock) = self.wait_for_turn(limits.lock).await else {
            return Err(Self::no_turn(limits).into());
        };
        let begin = self.begin(lock);
        let done = self
            .run(move |sqlite| {
                begin(sqlite)?;
                let done = work(sqlite).and_then(|done| {
                    sqlite.batch_execute("COMMIT").map_err(StoreError::from)?;
                    Ok(done)
                });
                if done.is_err() {
                    // It fails where the error has ended the transaction already.
                    let _ = sqlite.batch_execute("ROLLBACK");
                }
                done
            })
            .await;
        self.end_turn();
        done
    }
}

fn connect(path: &str) -> Result<SqliteConnection, StoreError> {
    let mut sqlite =
        SqliteConnection::establish(path).map_err(|error| StoreError::Connect(format!("{path}: {error}")))?;
    // WAL lets the service read while a lane writes; FULL makes each COMMIT durable.
    let settings = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                    PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY";
    let refused = |error: diesel::result::Error| StoreError::Connect(format!("{path}: {error}"));
    sqlite.batch_execute(settings).map_err(refused)?;
    let mode: JournalMode = sql_query("PRAGMA journal_mode").get_result(&mut sqlite).map_err(refused)?;
    if mode.journal_mode != "wal" {
        let mode = mode.journal_mode;
        return Err(StoreError::Connect(format!(
            "{path}: its journal mode stays {mode}, the inbox needs WAL: use a local file system"
        )));
    }
    Ok(sqlite)
}

/// At least 1: with 0 `SQLite` does not wait at all.
fn millis(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1)
}
