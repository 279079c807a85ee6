//! Admit: BEGIN, fence and receipts in one round trip.

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{Array, BigInt, Integer, Text, Uuid as SqlUuid};
use diesel::{QueryResult, QueryableByName, sql_query};
use uuid::Uuid;

use crate::failure::FailureClass;
use crate::identity::PartitionId;
use crate::store::{Admission, Admit, Admitted, Conflict, Fence, RowState, StoreError, TransactionLimits};

use super::PgConn;
use super::begin::begin_with;
use super::commit::rollback;
use super::connection::limits_in_millis;

const FENCED: i32 = -1;
const VANISHED: i32 = -2;
const FRESH: i32 = -3;
const WAITING: i32 = -4;
const OTHER_PAYLOAD: i32 = 16;

#[derive(QueryableByName)]
struct Answer {
    #[diesel(sql_type = Integer)]
    ordinal: i32,
    #[diesel(sql_type = Integer)]
    answer: i32,
}

pub(super) async fn admit(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    admission: &Admission,
) -> Result<Admitted, StoreError> {
    let limits = limits_in_millis(limits);
    let answers = match (admission.fences.as_slice(), admission.messages.as_slice()) {
        ([fence], [message]) => admit_one(conn, &limits, admission, *fence, message).await?,
        _ => match admit_many(conn, MANY, &limits, admission).await {
            Err(DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => {
                rollback(conn).await?;
                admit_many(conn, RACED, &limits, admission).await?
            }
            answers => answers?,
        },
    };
    match read(&answers) {
        Ok(Admitted::Open(conflicts)) => Ok(Admitted::Open(conflicts)),
        closing => {
            rollback(conn).await?;
            closing
        }
    }
}

/// Without arrays, which cost a third of a small transaction.
async fn admit_one(
    conn: &mut PgConn,
    limits: &[String; 3],
    admission: &Admission,
    fence: Fence,
    message: &Admit,
) -> QueryResult<Vec<Answer>> {
    let begin = conn.begin_sql(limits);
    let [statement, lock, idle] = limits;
    // Ordinals count from 1, and a lost partition is told by its number, as in the form for many.
    let sql = if admission.patient {
        "SELECT CASE a.answer WHEN -1 THEN $5 ELSE 1 END AS ordinal, a.answer \
         FROM inbox.admit_patiently($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS a (answer)"
    } else {
        "SELECT CASE a.answer WHEN -1 THEN $5 ELSE 1 END AS ordinal, a.answer \
         FROM inbox.admit_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS a (answer)"
    };
    let query = sql_query(sql)
        .bind::<Text, _>(conn.mark())
        .bind::<Text, _>(statement)
        .bind::<Text, _>(lock)
        .bind::<Text, _>(idle)
        .bind::<Integer, _>(fence.partition.0)
        .bind::<SqlUuid, _>(fence.epoch.as_uuid())
        .bind::<Integer, _>(admission.subscription.0)
        .bind::<SqlUuid, _>(message.id.as_uuid())
        .bind::<BigInt, _>(message.offset.0)
        .bind::<Integer, _>(message.fingerprint);
    begin_with(&conn.conn, &begin, query).await
}

/// For many the good path looks first and inserts then, which is cheaper; the constraint decides in
/// both.
const MANY: &str =
    "SELECT ordinal, answer FROM inbox.admit_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const RACED: &str =
    "SELECT ordinal, answer FROM inbox.admit_raced($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

async fn admit_many(
    conn: &mut PgConn,
    sql: &'static str,
    limits: &[String; 3],
    admission: &Admission,
) -> QueryResult<Vec<Answer>> {
    let begin = conn.begin_sql(limits);
    let [statement, lock, idle] = limits;
    let messages = &admission.messages;
    let partitions: Vec<i32> = admission.fences.iter().map(|fence| fence.partition.0).collect();
    let epochs: Vec<Uuid> = admission.fences.iter().map(|fence| fence.epoch.as_uuid()).collect();
    let ids: Vec<Uuid> = messages.iter().map(|message| message.id.as_uuid()).collect();
    let id_partitions: Vec<i32> = messages.iter().map(|message| message.partition.0).collect();
    let offsets: Vec<i64> = messages.iter().map(|message| message.offset.0).collect();
    let fingerprints: Vec<i32> = messages.iter().map(|message| message.fingerprint).collect();
    let query = sql_query(sql)
        .bind::<Text, _>(conn.mark())
        .bind::<Text, _>(statement)
        .bind::<Text, _>(lock)
        .bind::<Text, _>(idle)
        .bind::<Array<Integer>, _>(partitions)
        .bind::<Array<SqlUuid>, _>(epochs)
        .bind::<Integer, _>(admission.subscription.0)
        .bind::<Array<SqlUuid>, _>(ids)
        .bind::<Array<Integer>, _>(id_partitions)
        .bind::<Array<BigInt>, _>(offsets)
        .bind::<Array<Integer>, _>(fingerprints);
    begin_with(&conn.conn, &begin, query).await
}

fn read(answers: &[Answer]) -> Result<Admitted, StoreError> {
    let mut conflicts = Vec::new();
    let mut lost = Vec::new();
    for &Answer { ordinal, answer } in answers {
        match answer {
            FENCED => lost.push(PartitionId(ordinal)),
            FRESH => {}
            WAITING => return Ok(Admitted::Waiting),
            VANISHED => return Err(again("the row that an id conflicts with went away during admission")),
            state => {
                let other_payload = state >= OTHER_PAYLOAD;
                let state = RowState::from_stored(state % OTHER_PAYLOAD);
                let (Some(state), Some(index)) =
                    (state, usize::try_from(ordinal).ok().and_then(|n| n.checked_sub(1)))
                else {
                    return Err(again("admission answered with what this version does not know"));
                };
                conflicts.push(Conflict { index, state, other_payload });
            }
        }
    }
    Ok(if lost.is_empty() { Admitted::Open(conflicts) } else { Admitted::Fenced(lost) })
}

fn again(reason: &str) -> StoreError {
    StoreError::Statement { class: FailureClass::Conflict, reason: reason.into() }
}
