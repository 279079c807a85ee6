//! Bury: open → dead, of a started row, in a transaction of its own.

use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text};
use diesel::{RunQueryDsl, sql_query};

use crate::dead_letter::DeadLetter;
use crate::store::clock::millis;
use crate::store::kept::stored_attempts;
use crate::store::{Prepared, Started, StoreError, TransactionLimits, Transition};

use super::SqliteConn;
use super::fence::lost;

/// The bytes stay as they are. A letter with more attempts than the row has just failed once more.
const BURY: &str = "\
    UPDATE inbox_messages SET state = 1, recorded_at = clock.now, class = ?1, reason = ?2, attempts = ?3, \
        first_attempt_at = coalesce(first_attempt_at, clock.now - ?4), \
        last_attempt_at = iif(?3 > attempts, clock.now, last_attempt_at), \
        due_at = NULL, start_token = NULL, started_at = NULL, blocks_key = ?5 \
    FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now) AS clock \
    WHERE message_id = ?6 AND subscription_id = ?7 AND state = 0 AND start_token = ?8";

pub(super) async fn bury_open(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    row: &Started,
    letter: &DeadLetter,
) -> Result<Transition, StoreError> {
    let (row, letter) = (*row, letter.clone());
    conn.transaction(limits, move |sqlite| {
        if !lost(sqlite, &[row.fence])?.is_empty() {
            return Ok(Transition::Fenced);
        }
        let query = sql_query(BURY)
            .bind::<Text, _>(letter.class.as_str())
            .bind::<Text, _>(letter.stored_reason())
            .bind::<Integer, _>(stored_attempts(letter.attempts))
            .bind::<Nullable<BigInt>, _>(letter.since_first.map(millis))
            .bind::<Nullable<Bool>, _>(letter.blocks.then_some(true))
            .bind::<Binary, _>(row.id.as_uuid().into_bytes())
            .bind::<Integer, _>(row.subscription.0)
            .bind::<Binary, _>(row.token.as_uuid().into_bytes());
        let changed = Prepared::of(query).execute(sqlite)?;
        Ok(if changed == 1 { Transition::Done } else { Transition::Gone })
    })
    .await
}
