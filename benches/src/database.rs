//! The database's side of a case: its tables, its connections, its sums.

use diesel::deserialize::QueryableByName;
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};

use crate::Result;
use crate::env::Env;
use crate::statements::bench_accounts;
use crate::workload::{ACCOUNTS, Prefix};

/// Held while a run uses the tables: two runs in one database would count each other's effects.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtext('inbox-benches'))::text AS answer";

/// A connection as the cases use it. A session that somebody made faster by giving up durability
/// would measure something else.
pub(crate) async fn connect(env: &Env) -> Result<AsyncPgConnection> {
    let mut connection = AsyncPgConnection::establish(&env.database_url)
        .await
        .map_err(|error| format!("no connection to Postgres: {error}"))?;
    connection.batch_execute("SET synchronous_commit = on").await?;
    Ok(connection)
}

/// A connection that keeps other runs out until it is dropped; refuses a server that would forget.
pub(crate) async fn lock(env: &Env) -> Result<AsyncPgConnection> {
    let mut connection = connect(env).await?;
    if ask(&mut connection, "SELECT current_setting('fsync') AS answer").await? != "on" {
        return Err("Postgres runs with fsync off: its figures would mean nothing".into());
    }
    if ask(&mut connection, LOCK).await? != "true" {
        return Err("another bench uses this database".into());
    }
    Ok(connection)
}

/// Tables as a case finds them: empty, analysed, with nothing left to write from the case before.
///
/// The inbox by hand is the smallest that refuses a duplicate; a real one would at least want to
/// know when a row may go.
pub(crate) async fn reset(connection: &mut AsyncPgConnection) -> Result<()> {
    drop_tables(connection).await?;
    connection
        .batch_execute(&format!(
            "CREATE TABLE bench_inbox (id uuid PRIMARY KEY);
             CREATE TABLE bench_accounts (
                 id bigint PRIMARY KEY, cents bigint NOT NULL, n bigint NOT NULL
             );
             INSERT INTO bench_accounts SELECT id, 0, 0 FROM generate_series(0, {}) AS id;",
            ACCOUNTS - 1
        ))
        .await?;
    connection.batch_execute("VACUUM ANALYZE bench_accounts").await?;
    // Needs a right that the user may lack; without it a case may meet a checkpoint of another's.
    if connection.batch_execute("CHECKPOINT").await.is_err() {
        eprintln!("no right to CHECKPOINT: figures may vary more");
    }
    Ok(())
}

pub(crate) async fn drop_tables(connection: &mut AsyncPgConnection) -> Result<()> {
    connection.batch_execute("DROP TABLE IF EXISTS bench_inbox, bench_accounts").await?;
    Ok(())
}

/// The oracle: every account's sum and count is that of the consumed records, each operation once.
pub(crate) async fn check(env: &Env, consumed: &Prefix) -> Result<()> {
    let mut connection = connect(env).await?;
    let rows: Vec<(i64, i64, i64)> =
        bench_accounts::table.order(bench_accounts::id).load(&mut connection).await?;
    let expected = env.workload.expected(consumed);
    if rows.len() != expected.len() {
        return Err(format!("{} accounts, not {}", rows.len(), expected.len()).into());
    }
    let wrong: Vec<_> = rows
        .into_iter()
        .zip(expected)
        .filter(|((_, cents, count), expected)| (*cents, *count) != (expected.cents, expected.count))
        .collect();
    let [((account, cents, count), expected), ..] = wrong.as_slice() else {
        return Ok(());
    };
    Err(format!(
        "the sums differ in {} accounts; account {account} has {cents} cents of {count} effects, \
         not {} of {}",
        wrong.len(),
        expected.cents,
        expected.count
    )
    .into())
}

/// The server's version and settings that bear on the figures, for the report.
pub(crate) async fn describe(connection: &mut AsyncPgConnection) -> Result<String> {
    let version = "SELECT current_setting('server_version') AS answer";
    Ok(format!("Postgres {}", ask(connection, version).await?))
}

async fn ask(connection: &mut AsyncPgConnection, question: &str) -> Result<String> {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = Text)]
        answer: String,
    }
    let row: Row = diesel::sql_query(question).get_result(connection).await?;
    Ok(row.answer)
}
