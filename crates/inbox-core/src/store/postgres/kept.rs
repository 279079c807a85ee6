//! Writes new open and dead rows.

use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::identity::BusinessKey;
use crate::store::clock::micros;
use crate::store::kept::{Kept, fences_of};
use crate::store::{Admission, Admit, Admitted, Prepared, StoreError, TransactionLimits, Written};

use super::PgConn;
use super::admit::admit;
use super::commit::{commit, rollback};
use super::fence::lost;

/// A row that is there, in any state, stays as it is.
///
/// Which log a record is of, its partition tells: the fence holds, so none was accepted since it was read. A
/// sub-select, because a join might write the rows in another order than that of their ids.
const INSERT: &str = "\
    INSERT INTO inbox.messages \
        (message_id, record_offset, subscription_id, partition_id, fingerprint, state, attempts, class, reason, \
         raw_id, business_key, headers, record_key, payload, record_time, key_id, due_at, first_attempt_at, \
         last_attempt_at, blocks_key, incarnation) \
    SELECT u.message_id, u.record_offset, u.subscription_id, u.partition_id, u.fingerprint, u.state, u.attempts, \
        u.class, u.reason, u.raw_id, u.business_key, u.headers, u.record_key, u.payload, u.record_time, u.key_id, \
        now() + u.due_in * interval '1 microsecond', now() - u.since_first * interval '1 microsecond', \
        CASE WHEN u.attempts > 0 THEN now() END, u.blocks_key, \
        (SELECT p.incarnation FROM inbox.partitions p WHERE p.id = u.partition_id) \
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) \
        AS u (message_id, record_offset, subscription_id, partition_id, fingerprint, state, attempts, class, reason, \
              raw_id, business_key, headers, record_key, payload, record_time, key_id, due_in, since_first, \
              blocks_key) \
    ON CONFLICT (subscription_id, message_id) DO NOTHING";

/// In a transaction of its own. They must be sorted by id.
pub(super) async fn write(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    rows: &[Kept<'_>],
) -> Result<Written, StoreError> {
    conn.begin(limits).await?;
    let lost = lost(conn, &fences_of(rows)).await?;
    if !lost.is_empty() {
        rollback(conn).await?;
        return Ok(Written::Fenced(lost));
    }
    let inserted = match insert(conn, rows).await {
        Ok(inserted) => inserted,
        Err(error) => return Err(or_busy(conn, limits, rows, error).await),
    };
    commit(conn).await?;
    Ok(Written::Done { duplicates: rows.len() - inserted })
}

/// Answers with how many were written.
async fn insert(conn: &PgConn, rows: &[Kept<'_>]) -> Result<usize, StoreError> {
    fn column<'a, T>(rows: &'a [Kept<'a>], of: impl Fn(&'a Kept<'a>) -> T) -> Vec<T> {
        rows.iter().map(of).collect()
    }
    let query = sql_query(INSERT)
        .bind::<Array<SqlUuid>, Vec<Uuid>>(column(rows, |row| row.stored_id.as_uuid()))
        .bind::<Array<BigInt>, _>(column(rows, |row| row.record.offset().0))
        .bind::<Array<Integer>, _>(column(rows, |row| row.subscription.0))
        .bind::<Array<Integer>, _>(column(rows, |row| row.fence.partition.0))
        .bind::<Array<Integer>, _>(column(rows, |row| row.record.fingerprint()))
        .bind::<Array<SmallInt>, _>(column(rows, |row| row.state.stored()))
        .bind::<Array<Integer>, _>(column(rows, |row| row.attempts))
        .bind::<Array<Nullable<Text>>, _>(column(rows, |row| row.class))
        .bind::<Array<Nullable<Text>>, _>(column(rows, |row| row.reason.as_deref()))
        .bind::<Array<Binary>, _>(column(rows, |row| row.id.as_str().as_bytes()))
        .bind::<Array<Nullable<Binary>>, _>(column(rows, |row| row.key.map(BusinessKey::as_bytes)))
        .bind::<Array<Nullable<Binary>>, _>(column(rows, Kept::headers))
        .bind::<Array<Nullable<Binary>>, _>(column(rows, Kept::record_key))
        .bind::<Array<Nullable<Binary>>, _>(column(rows, Kept::payload))
        .bind::<Array<Nullable<BigInt>>, _>(column(rows, |row| row.record.timestamp.map(|time| time.0)))
        .bind::<Array<SqlUuid>, _>(column(rows, |row| row.key_id().as_uuid()))
        .bind::<Array<Nullable<BigInt>>, _>(column(rows, |row| row.due_in.map(micros)))
        .bind::<Array<Nullable<BigInt>>, _>(column(rows, |row| row.since_first.map(micros)))
        .bind::<Array<Nullable<Bool>>, _>(column(rows, |row| row.blocks));
    Ok(Prepared::of(query).execute(&mut &conn.conn).await?)
}

/// Why one row could not be written: it may have waited for another transaction with its id. The driver does not
/// tell the kind of that error; admission does, since it is asked patiently.
async fn or_busy(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    rows: &[Kept<'_>],
    error: StoreError,
) -> StoreError {
    let [row] = rows else { return error };
    if error.is_lost() || rollback(conn).await.is_err() {
        return error;
    }
    let message = Admit {
        id: row.stored_id,
        partition: row.fence.partition,
        offset: row.record.offset(),
        fingerprint: row.record.fingerprint(),
    };
    let admission = Admission {
        subscription: row.subscription,
        fences: vec![row.fence],
        messages: vec![message],
        patient: true,
    };
    // Whatever it answers, nothing of it stays: the connection is discarded after an error.
    match admit(conn, limits, &admission).await {
        Ok(Admitted::Waiting) => StoreError::Busy(format!("another transaction holds its id: {error}")),
        _ => error,
    }
}
