//! Migrations in the store's turn, with a version table of the inbox's own, so that they meet no
//! other migration tool's.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::sql_types::{Integer, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use crate::store::{Migration, MigrationStatus, StoreError, TransactionLimits};

use super::SqliteConn;
use super::file::DatabaseFile;

const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "inbox",
    up: include_str!("../../../../../migrations/sqlite/0001_inbox.up.sql"),
    down: include_str!("../../../../../migrations/sqlite/0001_inbox.down.sql"),
}];

const PREPARE: &str = "\
    CREATE TABLE IF NOT EXISTS inbox_migrations ( \
        number INTEGER PRIMARY KEY, name TEXT NOT NULL, \
        applied_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER))) STRICT";

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Integer)]
    number: i32,
}

/// What one transaction of a migration did.
enum Step {
    Changed(&'static Migration),
    /// Nothing was left to do; the schema is at this number.
    Over(i32),
}

pub(super) async fn up(file: &Arc<DatabaseFile>) -> Result<i32, StoreError> {
    let mut conn = SqliteConn::open(file).await?;
    loop {
        match conn.transaction(&limits(), step_up).await? {
            Step::Changed(Migration { number, name, .. }) => {
                tracing::info!(number, name, "inbox schema migrated");
            }
            Step::Over(applied) => return Ok(applied),
        }
    }
}

pub(super) async fn down(file: &Arc<DatabaseFile>, to: i32) -> Result<i32, StoreError> {
    let mut conn = SqliteConn::open(file).await?;
    loop {
        match conn.transaction(&limits(), move |sqlite| step_down(sqlite, to)).await? {
            Step::Changed(Migration { number, name, .. }) => {
                tracing::info!(number, name, "inbox schema migration reverted");
            }
            Step::Over(applied) => return Ok(applied),
        }
    }
}

pub(super) async fn status(file: &Arc<DatabaseFile>) -> Result<MigrationStatus, StoreError> {
    let mut conn = SqliteConn::open(file).await?;
    conn.run(|sqlite| {
        let there: Number =
            sql_query("SELECT count(*) AS number FROM sqlite_master WHERE name = 'inbox_migrations'")
                .get_result(sqlite)?;
        let applied = if there.number == 0 { 0 } else { applied(sqlite)? };
        Ok(MigrationStatus { applied, known: last() })
    })
    .await
}

fn step_up(sqlite: &mut SqliteConnection) -> Result<Step, StoreError> {
    sqlite.batch_execute(PREPARE)?;
    let applied = applied(sqlite)?;
    if applied > last() {
        let status = MigrationStatus { applied, known: last() };
        return Err(StoreError::Schema(status.problem().unwrap_or_default()));
    }
    let Some(next) = MIGRATIONS.iter().find(|migration| migration.number > applied) else {
        return Ok(Step::Over(applied));
    };
    sqlite.batch_execute(next.up)?;
    sql_query("INSERT INTO inbox_migrations (number, name) VALUES (?, ?)")
        .bind::<Integer, _>(next.number)
        .bind::<Text, _>(next.name)
        .execute(sqlite)?;
    Ok(Step::Changed(next))
}

fn step_down(sqlite: &mut SqliteConnection, to: i32) -> Result<Step, StoreError> {
    sqlite.batch_execute(PREPARE)?;
    let applied = applied(sqlite)?;
    let Some(last) = MIGRATIONS.iter().rev().find(|migration| migration.number == applied && applied > to)
    else {
        return Ok(Step::Over(applied));
    };
    sqlite.batch_execute(last.down)?;
    sql_query("DELETE FROM inbox_migrations WHERE number = ?")
        .bind::<Integer, _>(last.number)
        .execute(sqlite)?;
    Ok(Step::Changed(last))
}

fn last() -> i32 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

fn applied(sqlite: &mut SqliteConnection) -> Result<i32, StoreError> {
    let applied: Number =
        sql_query("SELECT coalesce(max(number), 0) AS number FROM inbox_migrations").get_result(sqlite)?;
    Ok(applied.number)
}

/// Another migration, or a batch, takes its time.
fn limits() -> TransactionLimits {
    let hour = Duration::from_hours(1);
    TransactionLimits { statement: hour, lock: hour, idle: hour }
}
