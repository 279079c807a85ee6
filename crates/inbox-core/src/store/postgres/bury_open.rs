//! Bury: open → dead, of a started row, in a transaction of its own.

use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::dead_letter::DeadLetter;
use crate::store::clock::micros;
use crate::store::kept::stored_attempts;
use crate::store::{Started, StoreError, TransactionLimits, Transition};

use super::PgConn;
use super::commit::{commit, rollback};
use super::fence::lost;

/// The bytes stay as they are. A letter with more attempts than the row has just failed once more.
const BURY: &str = "\
    UPDATE inbox.messages SET state = 1, recorded_at = now(), class = $4, reason = $5, attempts = $6, \
        first_attempt_at = coalesce(first_attempt_at, now() - $7 * interval '1 microsecond'), \
        last_attempt_at = CASE WHEN $6 > attempts THEN now() ELSE last_attempt_at END, \
        due_at = NULL, start_token = NULL, started_at = NULL, blocks_key = $8 \
    WHERE message_id = $1 AND subscription_id = $2 AND state = 0 AND start_token = $3";

pub(super) async fn bury_open(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    row: &Started,
    letter: &DeadLetter,
) -> Result<Transition, StoreError> {
    conn.begin(limits).await?;
    if !lost(conn, &[row.fence]).await?.is_empty() {
        rollback(conn).await?;
        return Ok(Transition::Fenced);
    }
    let query = sql_query(BURY)
        .bind::<SqlUuid, _>(row.id.as_uuid())
        .bind::<Integer, _>(row.subscription.0)
        .bind::<SqlUuid, _>(row.token.as_uuid())
        .bind::<Text, _>(letter.class.as_str())
        .bind::<Text, _>(letter.stored_reason())
        .bind::<Integer, _>(stored_attempts(letter.attempts))
        .bind::<Nullable<BigInt>, _>(letter.since_first.map(micros))
        .bind::<Nullable<Bool>, _>(letter.blocks.then_some(true));
    if query.execute(&mut &conn.conn).await? == 0 {
        rollback(conn).await?;
        return Ok(Transition::Gone);
    }
    commit(conn).await?;
    Ok(Transition::Done)
}
