//! Start: the head of a key gets a token, and is read.

use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable};
use diesel::{OptionalExtension, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};
use uuid::Uuid;

use crate::failure::FailureClass;
use crate::identity::{BusinessKey, Offset, StoredId};
use crate::record::Timestamp;
use crate::store::clock::from_millis;
use crate::store::start::read_bytes;
use crate::store::{Head, OpenRow, Prepared, Start, StoreError, TransactionLimits};

use super::SqliteConn;
use super::fence::lost;

/// The index is named: without it every receipt of the subscription could be read.
const HEAD: &str = "\
    SELECT message_id, state = 1 AS blocks, start_token IS NOT NULL AS started, \
        due_at - CAST(unixepoch('subsec') * 1000 AS INTEGER) AS due_in \
    FROM inbox_messages INDEXED BY inbox_messages_of_key \
    WHERE subscription_id = ? AND partition_id = ? AND key_id = ? AND (state = 0 OR blocks_key) \
    ORDER BY incarnation, record_offset, message_id LIMIT 1";

const START: &str = "\
    UPDATE inbox_messages SET start_token = ?, started_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) \
    WHERE message_id = ? AND subscription_id = ? AND state = 0 \
    RETURNING message_id, raw_id, business_key, record_offset, fingerprint, record_time, record_key, payload, \
        headers, attempts, started_at - first_attempt_at AS since_first";

#[derive(QueryableByName)]
struct Found {
    #[diesel(sql_type = Binary)]
    message_id: Vec<u8>,
    #[diesel(sql_type = Bool)]
    blocks: bool,
    #[diesel(sql_type = Bool)]
    started: bool,
    #[diesel(sql_type = Nullable<BigInt>)]
    due_in: Option<i64>,
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Binary)]
    message_id: Vec<u8>,
    #[diesel(sql_type = Binary)]
    raw_id: Vec<u8>,
    #[diesel(sql_type = Nullable<Binary>)]
    business_key: Option<Vec<u8>>,
    #[diesel(sql_type = BigInt)]
    record_offset: i64,
    #[diesel(sql_type = Integer)]
    fingerprint: i32,
    #[diesel(sql_type = Nullable<BigInt>)]
    record_time: Option<i64>,
    #[diesel(sql_type = Nullable<Binary>)]
    record_key: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Binary>)]
    payload: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Binary>)]
    headers: Option<Vec<u8>>,
    #[diesel(sql_type = Integer)]
    attempts: i32,
    #[diesel(sql_type = Nullable<BigInt>)]
    since_first: Option<i64>,
}

pub(super) async fn start(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    start: &Start,
) -> Result<Head, StoreError> {
    let start = *start;
    conn.transaction(limits, move |sqlite| {
        if !lost(sqlite, &[start.fence])?.is_empty() {
            return Ok(Head::Fenced);
        }
        start_head(sqlite, &start)
    })
    .await
}

/// Whoever started the row before did it under this epoch too (a take-over clears the tokens of others), and
/// lost the answer or its end: the row is started again, with the new token.
fn start_head(sqlite: &mut SqliteConnection, start: &Start) -> Result<Head, StoreError> {
    let head = sql_query(HEAD)
        .bind::<Integer, _>(start.subscription.0)
        .bind::<Integer, _>(start.fence.partition.0)
        .bind::<Binary, _>(start.key.as_uuid().into_bytes());
    let message_id = match Prepared::of(head).get_result::<Found>(sqlite).optional()? {
        None => return Ok(Head::None),
        Some(Found { blocks: true, .. }) => return Ok(Head::Blocked),
        Some(Found { started: false, due_in: Some(due_in @ 1..), .. }) => {
            return Ok(Head::NotDue(from_millis(due_in)));
        }
        Some(Found { message_id, .. }) => message_id,
    };
    let started = sql_query(START)
        .bind::<Binary, _>(start.token.as_uuid().into_bytes())
        .bind::<Binary, _>(message_id)
        .bind::<Integer, _>(start.subscription.0);
    Ok(Head::Started(Box::new(read(Prepared::of(started).get_result(sqlite)?)?)))
}

fn read(row: Row) -> Result<OpenRow, StoreError> {
    let (id, headers) = read_bytes(row.raw_id, row.headers.as_deref())?;
    Ok(OpenRow {
        id,
        stored_id: StoredId::from_uuid(Uuid::from_slice(&row.message_id).map_err(|_| unknown())?),
        key: row.business_key.as_deref().map(BusinessKey::new),
        offset: Offset(row.record_offset),
        fingerprint: row.fingerprint,
        timestamp: row.record_time.map(Timestamp),
        record_key: row.record_key,
        value: row.payload,
        headers,
        attempts: u32::try_from(row.attempts).map_err(|_| unknown())?,
        since_first: row.since_first.map(from_millis),
    })
}

fn unknown() -> StoreError {
    let reason = "an open row holds what this version does not know".into();
    StoreError::Statement { class: FailureClass::Conflict, reason }
}
