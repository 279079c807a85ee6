//! The database as the run sees it from outside: the service's tables, and what can be counted.
//!
//! Nothing here asks the worker: it is killed, and what it believed does not count.

use std::collections::HashMap;
use std::convert::Infallible;
use std::str::FromStr;

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};

use crate::Result;
use crate::schema::{accounts, ledger};
use crate::workload::{ACCOUNTS, CLOSED};

/// Where the database is.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// A file's path.
    Sqlite(String),
    /// A URL; it may hold a password.
    Postgres(String),
}

impl FromStr for Address {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(Self::postgres(text).unwrap_or_else(|_| Self::Sqlite(text.to_owned())))
    }
}

impl Address {
    /// What people may give; a file they need not.
    pub(crate) fn postgres(url: &str) -> std::result::Result<Self, &'static str> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Ok(Self::Postgres(url.to_owned()))
        } else {
            Err("write postgres://user:password@host:port/database")
        }
    }

    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "an SQLite file",
            Self::Postgres(_) => "Postgres",
        }
    }

    /// As the worker's environment holds it.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Sqlite(text) | Self::Postgres(text) => text,
        }
    }
}

/// An open connection.
pub(crate) enum Database {
    Sqlite(SyncConnectionWrapper<SqliteConnection>),
    Postgres(Box<AsyncPgConnection>),
}

const OPEN_ACCOUNTS: &str = "
    WITH RECURSIVE numbers (id) AS (VALUES (0) UNION ALL SELECT id + 1 FROM numbers WHERE id + 1 < $1)
    INSERT INTO quickstart_accounts SELECT id, 0, id % $2 <> 0 FROM numbers";

/// The same plain diesel on either connection.
macro_rules! on {
    ($database:expr, $conn:ident => $code:expr) => {
        match $database {
            Database::Sqlite($conn) => $code,
            Database::Postgres($conn) => {
                let $conn = &mut **$conn;
                $code
            }
        }
    };
}

/// An effect, as the handler wrote it down.
#[derive(Clone, Queryable, Selectable)]
#[diesel(table_name = ledger)]
pub(crate) struct Effect {
    pub(crate) message_id: String,
    pub(crate) account: i64,
    pub(crate) sequence: i64,
    pub(crate) kafka_partition: i32,
    pub(crate) kafka_offset: i64,
    pub(crate) worker: i32,
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

impl Database {
    /// Connects and makes the service's tables anew, with every account in them, some of them closed.
    pub(crate) async fn prepare(address: &Address) -> Result<Self> {
        let mut database = match address {
            Address::Sqlite(path) => {
                let mut conn = SyncConnectionWrapper::establish(path).await?;
                conn.batch_execute(include_str!("../sql/sqlite.sql")).await?;
                Self::Sqlite(conn)
            }
            Address::Postgres(url) => {
                let conn = AsyncPgConnection::establish(url).await;
                let mut conn = conn.map_err(|error| format!("no connection to Postgres: {error}"))?;
                keep_others_out(&mut conn).await?;
                conn.batch_execute(include_str!("../sql/postgres.sql")).await?;
                Self::Postgres(Box::new(conn))
            }
        };
        let open_accounts =
            diesel::sql_query(OPEN_ACCOUNTS).bind::<BigInt, _>(ACCOUNTS).bind::<BigInt, _>(CLOSED);
        on!(&mut database, conn => open_accounts.execute(conn).await?);
        Ok(database)
    }

    /// Opens the accounts that are closed.
    pub(crate) async fn open_all_accounts(&mut self) -> Result<()> {
        let closed = diesel::update(accounts::table.filter(accounts::open.eq(false)));
        on!(self, conn => closed.set(accounts::open.eq(true)).execute(conn).await?);
        Ok(())
    }

    /// How many effects are committed.
    pub(crate) async fn count_effects(&mut self) -> Result<usize> {
        let count: i64 = on!(self, conn => ledger::table.count().get_result(conn).await?);
        Ok(usize::try_from(count)?)
    }

    /// How many records the inbox has finished in one piece from the start of each partition on: the
    /// sum of its watermarks. Only after the worker has begun.
    pub(crate) async fn count_finished(&mut self, group: &str) -> Result<usize> {
        let (watermarks, partitions) = (self.inbox_table("watermarks"), self.inbox_table("partitions"));
        self.count(
            &format!(
                "SELECT CAST(coalesce(sum(w.watermark), 0) AS bigint) AS n
                 FROM {watermarks} w JOIN {partitions} p ON p.id = w.partition_id
                 WHERE p.consumer_group = $1"
            ),
            group,
        )
        .await
    }

    /// How many dead letters there are.
    pub(crate) async fn count_dead(&mut self, group: &str) -> Result<usize> {
        self.count_rows(group, 1).await
    }

    /// How many messages are parked, or wait behind one that is.
    pub(crate) async fn count_open(&mut self, group: &str) -> Result<usize> {
        self.count_rows(group, 0).await
    }

    async fn count_rows(&mut self, group: &str, state: i16) -> Result<usize> {
        let (messages, subscriptions) = (self.inbox_table("messages"), self.inbox_table("subscriptions"));
        self.count(
            &format!(
                "SELECT count(*) AS n
                 FROM {messages} m JOIN {subscriptions} s ON s.id = m.subscription_id
                 WHERE s.consumer_group = $1 AND m.state = {state}"
            ),
            group,
        )
        .await
    }

    /// Every effect, in the order in which they happened.
    pub(crate) async fn effects(&mut self) -> Result<Vec<Effect>> {
        let effects = on!(self, conn => {
            ledger::table.order(ledger::number).select(Effect::as_select()).load(conn).await?
        });
        Ok(effects)
    }

    /// What each account holds.
    pub(crate) async fn balances(&mut self) -> Result<HashMap<i64, i64>> {
        let rows: Vec<(i64, i64)> =
            on!(self, conn => accounts::table.select((accounts::id, accounts::cents)).load(conn).await?);
        Ok(rows.into_iter().collect())
    }

    /// Postgres has a schema for the inbox, `SQLite` a prefix.
    fn inbox_table(&self, name: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("inbox_{name}"),
            Self::Postgres(_) => format!("inbox.{name}"),
        }
    }

    async fn count(&mut self, query: &str, group: &str) -> Result<usize> {
        let query = diesel::sql_query(query).bind::<Text, _>(group);
        let count: Count = on!(self, conn => query.get_result(conn).await?);
        Ok(usize::try_from(count.n)?)
    }
}

/// Two runs in one database would count each other's effects. Held as long as the connection is.
async fn keep_others_out(conn: &mut AsyncPgConnection) -> Result<()> {
    diesel::define_sql_function! {
        fn pg_try_advisory_lock(key: BigInt) -> Bool;
    }
    /// Any number that nobody else locks.
    const LOCK: i64 = 0x7175_6963_6b73;
    if diesel::select(pg_try_advisory_lock(LOCK)).get_result(conn).await? {
        return Ok(());
    }
    Err("another run of this example is using this database: wait for it, or give another database".into())
}
