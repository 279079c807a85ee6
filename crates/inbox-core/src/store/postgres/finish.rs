//! Finish: BEGIN, fence and open → done in one round trip.

use diesel::sql_types::{Integer, Text, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};

use crate::store::{Started, StoreError, TransactionLimits, Transition};

use super::PgConn;
use super::begin::begin_with;
use super::commit::rollback;
use super::connection::limits_in_millis;

const FENCED: i32 = -1;
const DONE: i32 = 1;

#[derive(QueryableByName)]
struct Answer {
    #[diesel(sql_type = Integer)]
    answer: i32,
}

pub(super) async fn finish(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    row: &Started,
) -> Result<Transition, StoreError> {
    let limits = limits_in_millis(limits);
    let begin = conn.begin_sql(&limits);
    let [statement, lock, idle] = &limits;
    let query = sql_query("SELECT inbox.finish($1, $2, $3, $4, $5, $6, $7, $8, $9) AS answer")
        .bind::<Text, _>(conn.mark())
        .bind::<Text, _>(statement)
        .bind::<Text, _>(lock)
        .bind::<Text, _>(idle)
        .bind::<Integer, _>(row.fence.partition.0)
        .bind::<SqlUuid, _>(row.fence.epoch.as_uuid())
        .bind::<Integer, _>(row.subscription.0)
        .bind::<SqlUuid, _>(row.id.as_uuid())
        .bind::<SqlUuid, _>(row.token.as_uuid());
    let answers: Vec<Answer> = begin_with(&conn.conn, &begin, query).await?;
    let ended = match answers.first().map(|row| row.answer) {
        Some(DONE) => return Ok(Transition::Done),
        Some(FENCED) => Transition::Fenced,
        _ => Transition::Gone,
    };
    rollback(conn).await?;
    Ok(ended)
}
