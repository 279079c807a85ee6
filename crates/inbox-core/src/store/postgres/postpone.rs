//! Postpone: the attempt of a started row failed, in a transaction of its own.

use diesel::sql_query;
use diesel::sql_types::{BigInt, Integer, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::store::clock::micros;
use crate::store::kept::stored_attempts;
use crate::store::{Failed, Started, StoreError, TransactionLimits, Transition};
use crate::stored;

use super::PgConn;
use super::commit::{commit, rollback};
use super::fence::lost;

const POSTPONE: &str = "\
    UPDATE inbox.messages SET class = $4, reason = $5, attempts = $6, \
        first_attempt_at = coalesce(first_attempt_at, now() - $7 * interval '1 microsecond'), \
        last_attempt_at = now(), due_at = now() + $8 * interval '1 microsecond', \
        start_token = NULL, started_at = NULL \
    WHERE message_id = $1 AND subscription_id = $2 AND state = 0 AND start_token = $3";

pub(super) async fn postpone(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    row: &Started,
    failed: &Failed,
) -> Result<Transition, StoreError> {
    conn.begin(limits).await?;
    if !lost(conn, &[row.fence]).await?.is_empty() {
        rollback(conn).await?;
        return Ok(Transition::Fenced);
    }
    let query = sql_query(POSTPONE)
        .bind::<SqlUuid, _>(row.id.as_uuid())
        .bind::<Integer, _>(row.subscription.0)
        .bind::<SqlUuid, _>(row.token.as_uuid())
        .bind::<Text, _>(failed.class)
        .bind::<Text, _>(stored::reason(&failed.reason))
        .bind::<Integer, _>(stored_attempts(failed.attempts))
        .bind::<BigInt, _>(micros(failed.since_first))
        .bind::<BigInt, _>(micros(failed.due_in));
    if query.execute(&mut &conn.conn).await? == 0 {
        rollback(conn).await?;
        return Ok(Transition::Gone);
    }
    commit(conn).await?;
    Ok(Transition::Done)
}
