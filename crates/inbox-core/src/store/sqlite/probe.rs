//! Probe: a fresh connection, and a row of ours written durably.

use std::sync::Arc;
use std::time::Duration;

use diesel::sql_types::BigInt;
use diesel::{QueryableByName, RunQueryDsl, sql_query};

use crate::store::{StoreError, TransactionLimits};

use super::SqliteConn;
use super::file::DatabaseFile;

/// How long it waits for its turn: less than the one who asks waits for the probe.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(QueryableByName)]
struct Rows {
    #[diesel(sql_type = BigInt)]
    rows: i64,
}

pub(super) async fn probe(file: &Arc<DatabaseFile>) -> Result<(), StoreError> {
    let mut conn = SqliteConn::open(file).await?;
    let result = probe_through(&mut conn).await;
    conn.discard().await;
    result
}

pub(super) async fn probe_through(conn: &mut SqliteConn) -> Result<(), StoreError> {
    if conn.wait_for_turn(PATIENCE).await.is_some() { write(conn).await } else { read(conn).await }
}

async fn write(conn: &mut SqliteConn) -> Result<(), StoreError> {
    conn.transaction(&TransactionLimits::OWN, |sqlite| {
        sql_query("UPDATE inbox_probe SET probed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)")
            .execute(sqlite)?;
        Ok(())
    })
    .await
}

/// A handler of this process that takes its time is no outage: that its transaction could begin
/// shows that the database can be written.
async fn read(conn: &mut SqliteConn) -> Result<(), StoreError> {
    conn.run(|sqlite| {
        let Rows { rows } = sql_query("SELECT count(*) AS rows FROM inbox_probe").get_result(sqlite)?;
        if rows == 1 { Ok(()) } else { Err(StoreError::Schema("the table inbox_probe is empty".into())) }
    })
    .await
}
