//! Writes new open and dead rows.

use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text};
use diesel::{RunQueryDsl, SqliteConnection, sql_query};

use crate::identity::BusinessKey;
use crate::store::clock::millis;
use crate::store::kept::{Kept, fences_of};
use crate::store::{Prepared, StoreError, Written};

use super::fence::lost;

/// Which log a record is of, its partition tells: the fence holds, so none was accepted since it was read.
const INSERT: &str = "\
    INSERT INTO inbox_messages \
        (message_id, record_offset, subscription_id, partition_id, fingerprint, state, attempts, class, reason, \
         raw_id, business_key, headers, record_key, payload, record_time, key_id, due_at, first_attempt_at, \
         last_attempt_at, blocks_key, incarnation) \
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, clock.now + ?17, clock.now - ?18, \
        iif(?7 > 0, clock.now, NULL), ?19, \
        (SELECT p.incarnation FROM inbox_partitions AS p WHERE p.id = ?4) \
    FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now) AS clock WHERE true \
    ON CONFLICT (subscription_id, message_id) DO NOTHING";

/// In the transaction that is open.
pub(super) fn write(sqlite: &mut SqliteConnection, rows: &[Kept<'_>]) -> Result<Written, StoreError> {
    let lost = lost(sqlite, &fences_of(rows))?;
    if !lost.is_empty() {
        return Ok(Written::Fenced(lost));
    }
    let mut duplicates = 0;
    for row in rows {
        duplicates += usize::from(!insert(sqlite, row)?);
    }
    Ok(Written::Done { duplicates })
}

/// `false`: a row was there already, in any state; it stays as it is.
fn insert(sqlite: &mut SqliteConnection, row: &Kept<'_>) -> Result<bool, StoreError> {
    let inserted = Prepared::of(
        sql_query(INSERT)
            .bind::<Binary, _>(row.stored_id.as_uuid().into_bytes())
            .bind::<BigInt, _>(row.record.offset().0)
            .bind::<Integer, _>(row.subscription.0)
            .bind::<Integer, _>(row.fence.partition.0)
            .bind::<Integer, _>(row.record.fingerprint())
            .bind::<Integer, _>(i32::from(row.state.stored()))
            .bind::<Integer, _>(row.attempts)
            .bind::<Nullable<Text>, _>(row.class)
            .bind::<Nullable<Text>, _>(row.reason.as_deref())
            .bind::<Binary, _>(row.id.as_str().as_bytes())
            .bind::<Nullable<Binary>, _>(row.key.map(BusinessKey::as_bytes))
            .bind::<Nullable<Binary>, _>(row.headers())
            .bind::<Nullable<Binary>, _>(row.record_key())
            .bind::<Nullable<Binary>, _>(row.payload())
            .bind::<Nullable<BigInt>, _>(row.record.timestamp.map(|time| time.0))
            .bind::<Binary, _>(row.key_id().as_uuid().into_bytes())
            .bind::<Nullable<BigInt>, _>(row.due_in.map(millis))
            .bind::<Nullable<BigInt>, _>(row.since_first.map(millis))
            .bind::<Nullable<Bool>, _>(row.blocks),
    )
    .execute(sqlite)?;
    Ok(inserted == 1)
}
