//! Start: the head of a key gets a token, and is read.

use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use uuid::Uuid;

use crate::failure::FailureClass;
use crate::identity::{BusinessKey, Offset, StoredId};
use crate::record::Timestamp;
use crate::store::clock::from_micros;
use crate::store::start::read_bytes;
use crate::store::{Head, OpenRow, Start, StoreError, TransactionLimits};

use super::PgConn;
use super::begin::begin_with;
use super::commit::{commit, rollback};
use super::connection::limits_in_millis;

const FENCED: i32 = -1;
const NONE: i32 = 0;
const STARTED: i32 = 1;
const NOT_DUE: i32 = 2;
const BLOCKED: i32 = 3;

const START: &str = "\
    SELECT answer, micros, micros_since_first, (head).message_id, (head).raw_id, (head).business_key, \
        (head).record_offset, (head).fingerprint, (head).record_time, (head).record_key, (head).payload, \
        (head).headers, (head).attempts \
    FROM inbox.start($1, $2, $3, $4, $5, $6, $7, $8, $9)";

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    answer: i32,
    #[diesel(sql_type = Nullable<BigInt>)]
    micros: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    micros_since_first: Option<i64>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    message_id: Option<Uuid>,
    #[diesel(sql_type = Nullable<Binary>)]
    raw_id: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Binary>)]
    business_key: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<BigInt>)]
    record_offset: Option<i64>,
    #[diesel(sql_type = Nullable<Integer>)]
    fingerprint: Option<i32>,
    #[diesel(sql_type = Nullable<BigInt>)]
    record_time: Option<i64>,
    #[diesel(sql_type = Nullable<Binary>)]
    record_key: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Binary>)]
    payload: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Binary>)]
    headers: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Integer>)]
    attempts: Option<i32>,
}

pub(super) async fn start(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    start: &Start,
) -> Result<Head, StoreError> {
    let limits = limits_in_millis(limits);
    let begin = conn.begin_sql(&limits);
    let [statement, lock, idle] = &limits;
    let query = sql_query(START)
        .bind::<Text, _>(conn.mark())
        .bind::<Text, _>(statement)
        .bind::<Text, _>(lock)
        .bind::<Text, _>(idle)
        .bind::<Integer, _>(start.fence.partition.0)
        .bind::<SqlUuid, _>(start.fence.epoch.as_uuid())
        .bind::<Integer, _>(start.subscription.0)
        .bind::<SqlUuid, _>(start.key.as_uuid())
        .bind::<SqlUuid, _>(start.token.as_uuid());
    let rows: Vec<Row> = begin_with(&conn.conn, &begin, query).await?;
    let head = rows.into_iter().next().map_or_else(|| Err(unknown()), read);
    match head {
        Ok(Head::Started(_)) => commit(conn).await?,
        _ => rollback(conn).await?,
    }
    head
}

fn read(row: Row) -> Result<Head, StoreError> {
    match row.answer {
        FENCED => Ok(Head::Fenced),
        NONE => Ok(Head::None),
        BLOCKED => Ok(Head::Blocked),
        NOT_DUE => Ok(Head::NotDue(from_micros(row.micros.ok_or_else(unknown)?))),
        STARTED => Ok(Head::Started(Box::new(open_row(row)?))),
        _ => Err(unknown()),
    }
}

fn open_row(row: Row) -> Result<OpenRow, StoreError> {
    let (id, headers) = read_bytes(row.raw_id.ok_or_else(unknown)?, row.headers.as_deref())?;
    let attempts = row.attempts.ok_or_else(unknown)?;
    Ok(OpenRow {
        id,
        stored_id: StoredId::from_uuid(row.message_id.ok_or_else(unknown)?),
        key: row.business_key.as_deref().map(BusinessKey::new),
        offset: Offset(row.record_offset.ok_or_else(unknown)?),
        fingerprint: row.fingerprint.ok_or_else(unknown)?,
        timestamp: row.record_time.map(Timestamp),
        record_key: row.record_key,
        value: row.payload,
        headers,
        attempts: u32::try_from(attempts).map_err(|_| unknown())?,
        since_first: row.micros_since_first.map(from_micros),
    })
}

fn unknown() -> StoreError {
    let reason = "a start was answered with what this version does not know".into();
    StoreError::Statement { class: FailureClass::Conflict, reason }
}
