//! `PostgreSQL` 14 or later.

mod accept_log;
mod address;
mod admit;
mod begin;
mod bury;
mod bury_open;
mod commit;
mod connection;
mod departure;
mod fence;
mod finish;
mod flush;
mod kept;
mod migrate;
mod move_subscription;
mod park;
mod pipelined;
mod pooler;
mod postpone;
mod probe;
mod register;
mod remove;
mod start;
mod take_over;
mod tls;

use std::sync::Arc;

pub use address::SslMode;
pub use connection::PgConn;

use crate::dead_letter::DeadLetter;
use crate::handler::Handler;
use crate::identity::{Partition, SubscriptionId};
use crate::message::Message;
use crate::process::{self, Attempt, AttemptEnd};
use crate::tx::PgInner;

use super::{
    AcceptLog, Admission, Admitted, Database, Failed, Flush, Flushed, Head, MigrationStatus, MoveError,
    Moved, OnUnfinished, Park, RegisterError, Registration, RemoveError, Removed, Start, Started, Store,
    StoreError, TakeOver, TakenOver, TransactionLimits, Transition, Written,
};

use self::address::Address;

/// Names `PostgreSQL` in `Handler<Postgres>` and `Tx<'_, Postgres>`.
#[derive(Clone, Copy, Debug)]
pub struct Postgres;

/// Knows how to reach the `PostgreSQL` database in which the service's own tables and the schema
/// `inbox` live. Cheap to clone; holds no connection itself.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    address: Arc<Address>,
}

impl PostgresStore {
    /// Checks the address and that the database answers.
    ///
    /// `url` is `postgres://user:password@host:port/database?sslmode=verify-full` or the
    /// `key=value` form of libpq. `sslmode` is one of `disable`, `prefer` (the default), `require`,
    /// `verify-ca` and `verify-full`, with libpq's meanings; `sslrootcert` names a PEM file of
    /// certificate authorities (default: those of the system). `connect_timeout` defaults to 5 s.
    ///
    /// `prepared_statements` is `connection` (the default: prepared once per connection) or
    /// `transaction`: prepared anew in each transaction, for a pooler in transaction mode that does not
    /// keep them apart, such as pgbouncer before 1.21. That costs a round trip per statement. Each
    /// transaction then begins with `DEALLOCATE ALL`, and enumerations and other types of the database's
    /// own cannot be read. A pooler that needs it is noticed when the inbox starts, and refused.
    ///
    /// # Errors
    /// [`StoreError::Address`] for an address that cannot work, [`StoreError::Connect`] if nobody
    /// answers there, within the connect time-out.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let store = Self { address: Arc::new(Address::parse(url)?) };
        PgConn::open_once(&store.address).await?;
        Ok(store)
    }

    /// Applies the migrations that are missing, each in its own transaction, under a lock: several
    /// processes may call it at once. Returns the number of the last migration.
    ///
    /// # Errors
    /// If a statement fails, or the schema is newer than this version.
    pub async fn migrate(&self) -> Result<i32, StoreError> {
        migrate::up(&self.address).await
    }

    /// Reverts migrations down to this number; 0 removes everything of the inbox but its version
    /// table. **Receipts go with it**: what Kafka still has takes effect again.
    ///
    /// # Errors
    /// If a statement fails.
    pub async fn migrate_down(&self, to: i32) -> Result<i32, StoreError> {
        migrate::down(&self.address, to).await
    }

    /// Which migrations the database has, and which this version knows.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub async fn migration_status(&self) -> Result<MigrationStatus, StoreError> {
        migrate::status(&self.address).await
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
    /// transaction in the way or another such call. The call waits a few seconds at most before it gives up on
    /// one.
    pub async fn move_subscription(&self, name: &str, from: &str, to: &str) -> Result<Moved, MoveError> {
        move_subscription::move_subscription(&self.address, name, from, to).await
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
    /// [`OnUnfinished::Refuse`], a transaction in the way or another such call. The call waits a few seconds at
    /// most before it gives up on one.
    pub async fn remove_subscription(
        &self,
        name: &str,
        group: &str,
        unfinished: OnUnfinished,
    ) -> Result<Removed, RemoveError> {
        remove::remove(&self.address, name, group, unfinished).await
    }
}

impl Store for PostgresStore {
    type Db = Postgres;
}

impl Database for Postgres {
    type Store = PostgresStore;
    type Conn = PgConn;
    type Inner<'a> = PgInner<'a>;

    const NAME: &'static str = "postgres";
    const PIPELINES: bool = true;

    async fn connect(store: &PostgresStore) -> Result<PgConn, StoreError> {
        PgConn::open(&store.address).await
    }

    async fn discard(conn: PgConn) {
        conn.discard().await;
    }

    async fn admit<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        admission: &'a Admission,
    ) -> Result<Admitted, StoreError> {
        admit::admit(conn, limits, admission).await
    }

    fn inner(conn: &mut PgConn) -> PgInner<'_> {
        conn.inner()
    }

    async fn handle_each<'a, H: Handler<Self>>(
        conn: &'a mut PgConn,
        handler: &'a H,
        messages: &'a [&'a Message<H::Payload>],
        attempt: &'a Attempt<'a>,
    ) -> AttemptEnd {
        match attempt.chains {
            Some(chains) => pipelined::pipelined(conn, handler, messages, chains, attempt).await,
            None => process::in_sequence(conn, handler, messages, attempt).await,
        }
    }

    async fn commit(conn: &mut PgConn) -> Result<(), StoreError> {
        commit::commit(conn).await
    }

    async fn rollback(conn: &mut PgConn) -> Result<(), StoreError> {
        commit::rollback(conn).await
    }

    async fn bury<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        letters: &'a [DeadLetter],
    ) -> Result<Written, StoreError> {
        bury::bury(conn, limits, letters).await
    }

    async fn park<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        messages: &'a [Park],
    ) -> Result<Written, StoreError> {
        park::park(conn, limits, messages).await
    }

    async fn start<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        start: &'a Start,
    ) -> Result<Head, StoreError> {
        start::start(conn, limits, start).await
    }

    async fn finish<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        row: &'a Started,
    ) -> Result<Transition, StoreError> {
        finish::finish(conn, limits, row).await
    }

    async fn postpone<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        row: &'a Started,
        failed: &'a Failed,
    ) -> Result<Transition, StoreError> {
        postpone::postpone(conn, limits, row, failed).await
    }

    async fn bury_open<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        row: &'a Started,
        letter: &'a DeadLetter,
    ) -> Result<Transition, StoreError> {
        bury_open::bury_open(conn, limits, row, letter).await
    }

    async fn register<'a>(
        conn: &'a mut PgConn,
        group: &'a str,
        subscriptions: &'a [Registration],
    ) -> Result<Vec<SubscriptionId>, RegisterError> {
        register::register(conn, group, subscriptions).await
    }

    async fn take_over<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        partition: &'a TakeOver,
    ) -> Result<TakenOver, StoreError> {
        take_over::take_over(conn, limits, partition).await
    }

    async fn flush<'a>(
        conn: &'a mut PgConn,
        limits: &'a TransactionLimits,
        flushes: &'a [Flush],
    ) -> Result<Vec<Flushed>, StoreError> {
        flush::flush(conn, limits, flushes).await
    }

    async fn accept_log<'a>(
        conn: &'a mut PgConn,
        asked: &'a AcceptLog,
    ) -> Result<Vec<Partition>, StoreError> {
        accept_log::accept_log(conn, asked).await
    }

    async fn probe(store: &PostgresStore) -> Result<(), StoreError> {
        probe::probe(&store.address).await
    }

    async fn probe_through(conn: &mut PgConn) -> Result<(), StoreError> {
        probe::probe_through(conn).await
    }

    async fn check_schema(store: &PostgresStore) -> Result<(), StoreError> {
        pooler::check(&store.address).await?;
        match migrate::status(&store.address).await?.problem() {
            None => Ok(()),
            Some(problem) => Err(StoreError::Schema(problem)),
        }
    }
}
