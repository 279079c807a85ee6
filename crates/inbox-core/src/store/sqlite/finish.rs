//! Finish: BEGIN, fence and open → done in one go.

use diesel::sql_types::{Binary, Integer};
use diesel::{RunQueryDsl, SqliteConnection, sql_query};

use crate::store::{Prepared, Started, StoreError, TransactionLimits, Transition};

use super::SqliteConn;
use super::fence::lost;

const FINISH: &str = "\
    UPDATE inbox_messages SET state = 2, outcome = 0, recorded_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), \
        attempts = NULL, incarnation = NULL, class = NULL, reason = NULL, raw_id = NULL, \
        business_key = NULL, headers = NULL, record_key = NULL, payload = NULL, record_time = NULL, \
        key_id = NULL, due_at = NULL, first_attempt_at = NULL, last_attempt_at = NULL, \
        start_token = NULL, started_at = NULL \
    WHERE message_id = ? AND subscription_id = ? AND state = 0 AND start_token = ?";

pub(super) async fn finish(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    row: &Started,
) -> Result<Transition, StoreError> {
    let Some(lock) = conn.wait_for_turn(limits.lock).await else {
        return Err(SqliteConn::no_turn(limits));
    };
    let row = *row;
    let finish = move |sqlite: &mut SqliteConnection| finish_row(sqlite, &row);
    conn.keep_open(lock, finish, |ended| *ended == Transition::Done).await
}

fn finish_row(sqlite: &mut SqliteConnection, row: &Started) -> Result<Transition, StoreError> {
    if !lost(sqlite, &[row.fence])?.is_empty() {
        return Ok(Transition::Fenced);
    }
    let query = sql_query(FINISH)
        .bind::<Binary, _>(row.id.as_uuid().into_bytes())
        .bind::<Integer, _>(row.subscription.0)
        .bind::<Binary, _>(row.token.as_uuid().into_bytes());
    let changed = Prepared::of(query).execute(sqlite)?;
    Ok(if changed == 1 { Transition::Done } else { Transition::Gone })
}
