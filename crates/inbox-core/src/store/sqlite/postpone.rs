//! Postpone: the attempt of a started row failed, in a transaction of its own.

use diesel::sql_types::{BigInt, Binary, Integer, Text};
use diesel::{RunQueryDsl, sql_query};

use crate::store::clock::millis;
use crate::store::kept::stored_attempts;
use crate::store::{Failed, Prepared, Started, StoreError, TransactionLimits, Transition};
use crate::stored;

use super::SqliteConn;
use super::fence::lost;

const POSTPONE: &str = "\
    UPDATE inbox_messages SET class = ?, reason = ?, attempts = ?, \
        first_attempt_at = coalesce(first_attempt_at, clock.now - ?), last_attempt_at = clock.now, \
        due_at = clock.now + ?, start_token = NULL, started_at = NULL \
    FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now) AS clock \
    WHERE message_id = ? AND subscription_id = ? AND state = 0 AND start_token = ?";

pub(super) async fn postpone(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    row: &Started,
    failed: &Failed,
) -> Result<Transition, StoreError> {
    let (row, failed) = (*row, failed.clone());
    conn.transaction(limits, move |sqlite| {
        if !lost(sqlite, &[row.fence])?.is_empty() {
            return Ok(Transition::Fenced);
        }
        let query = sql_query(POSTPONE)
            .bind::<Text, _>(failed.class)
            .bind::<Text, _>(stored::reason(&failed.reason))
            .bind::<Integer, _>(stored_attempts(failed.attempts))
            .bind::<BigInt, _>(millis(failed.since_first))
            .bind::<BigInt, _>(millis(failed.due_in))
            .bind::<Binary, _>(row.id.as_uuid().into_bytes())
            .bind::<Integer, _>(row.subscription.0)
            .bind::<Binary, _>(row.token.as_uuid().into_bytes());
        let changed = Prepared::of(query).execute(sqlite)?;
        Ok(if changed == 1 { Transition::Done } else { Transition::Gone })
    })
    .await
}
