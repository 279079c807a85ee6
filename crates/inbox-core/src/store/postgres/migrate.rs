//! Migrations under a lock, with a version table of the inbox's own, so that they meet no other
//! migration tool's.

use diesel::sql_types::{Integer, Text};
use diesel::{QueryableByName, sql_query};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};

use crate::store::{Migration, MigrationStatus, StoreError, TransactionLimits};

use super::PgConn;
use super::address::Address;
use super::commit::rollback;

const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "inbox",
    up: include_str!("../../../../../migrations/postgres/0001_inbox.up.sql"),
    down: include_str!("../../../../../migrations/postgres/0001_inbox.down.sql"),
}];

/// Under this lock, in the inbox's class, only one process migrates.
const PREPARE: &str = "\
    SELECT pg_advisory_xact_lock(1768841832, 0); \
    CREATE SCHEMA IF NOT EXISTS inbox; \
    CREATE TABLE IF NOT EXISTS inbox.migrations ( \
        number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";

#[derive(QueryableByName)]
struct Applied {
    #[diesel(sql_type = Integer)]
    number: i32,
}

#[derive(QueryableByName)]
struct Exists {
    #[diesel(sql_type = diesel::sql_types::Bool)]
    there: bool,
}

pub(super) async fn up(address: &Address) -> Result<i32, StoreError> {
    let mut conn = PgConn::open_once(address).await?;
    loop {
        begin(&mut conn).await?;
        let applied = applied(&conn).await?;
        if applied > last() {
            let status = MigrationStatus { applied, known: last() };
            return Err(StoreError::Schema(status.problem().unwrap_or_default()));
        }
        let Some(next) = MIGRATIONS.iter().find(|migration| migration.number > applied) else {
            finish(&conn).await?;
            return Ok(applied);
        };
        (&conn.conn).batch_execute(next.up).await?;
        sql_query("INSERT INTO inbox.migrations (number, name) VALUES ($1, $2)")
            .bind::<Integer, _>(next.number)
            .bind::<Text, _>(next.name)
            .execute(&mut &conn.conn)
            .await?;
        finish(&conn).await?;
        tracing::info!(number = next.number, name = next.name, "inbox schema migrated");
    }
}

pub(super) async fn down(address: &Address, to: i32) -> Result<i32, StoreError> {
    let mut conn = PgConn::open_once(address).await?;
    loop {
        begin(&mut conn).await?;
        let applied = applied(&conn).await?;
        let Some(last) =
            MIGRATIONS.iter().rev().find(|migration| migration.number == applied && applied > to)
        else {
            finish(&conn).await?;
            return Ok(applied);
        };
        (&conn.conn).batch_execute(last.down).await?;
        sql_query("DELETE FROM inbox.migrations WHERE number = $1")
            .bind::<Integer, _>(last.number)
            .execute(&mut &conn.conn)
            .await?;
        finish(&conn).await?;
        tracing::info!(number = last.number, name = last.name, "inbox schema migration reverted");
    }
}

pub(super) async fn status(address: &Address) -> Result<MigrationStatus, StoreError> {
    let mut conn = PgConn::open_once(address).await?;
    // In a transaction, or a pooler could answer each statement from another server connection.
    conn.begin(&TransactionLimits::OWN).await?;
    let exists: Exists = sql_query("SELECT to_regclass('inbox.migrations') IS NOT NULL AS there")
        .get_result(&mut &conn.conn)
        .await?;
    let applied = if exists.there { applied(&conn).await? } else { 0 };
    rollback(&mut conn).await?;
    Ok(MigrationStatus { applied, known: last() })
}

fn last() -> i32 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

async fn applied(conn: &PgConn) -> Result<i32, StoreError> {
    let applied: Applied = sql_query("SELECT coalesce(max(number), 0) AS number FROM inbox.migrations")
        .get_result(&mut &conn.conn)
        .await?;
    Ok(applied.number)
}

async fn begin(conn: &mut PgConn) -> Result<(), StoreError> {
    // An index on a large table takes its time: only a lock is waited for with a limit.
    let hour = std::time::Duration::from_hours(1);
    conn.begin(&TransactionLimits { statement: hour, lock: hour, idle: hour }).await?;
    Ok((&conn.conn).batch_execute(PREPARE).await?)
}

async fn finish(conn: &PgConn) -> Result<(), StoreError> {
    // Not `commit`: the function that proves a transaction is itself made by the first migration.
    Ok((&conn.conn).batch_execute("COMMIT").await?)
}
