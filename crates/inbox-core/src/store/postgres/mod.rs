//! `PostgreSQL` 14 or later.

mod address;
mod admit;
mod bury;
mod commit;
mod connection;
mod flush;
mod migrate;
mod pipelined;
mod pooler;
mod probe;
mod register;
mod take_over;
mod tls;

use std::sync::Arc;

pub use address::SslMode;
pub use connection::PgConn;

use crate::dead_letter::DeadLetter;
use crate::handler::Handler;
use crate::identity::SubscriptionId;
use crate::message::Message;
use crate::process::{self, Attempt, AttemptEnd};
use crate::tx::PgInner;

use super::{
    Admission, Admitted, Buried, Database, Flush, Flushed, MigrationStatus, RegisterError, Registration,
    Store, StoreError, TakeOver, TakenOver, TransactionLimits,
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
    ) -> Result<Buried, StoreError> {
        bury::bury(conn, limits, letters).await
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
