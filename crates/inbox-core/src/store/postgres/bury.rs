//! Bury: (none) → dead, in a transaction of its own.

use diesel::sql_types::{Array, Integer, Text, Uuid as SqlUuid};
use diesel::{ExpressionMethods, QueryableByName, sql_query};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use crate::dead_letter::DeadLetter;
use crate::identity::{BusinessKey, PartitionId};
use crate::store::bury::{by_id, fences_of};
use crate::store::{Buried, Fence, StoreError, TransactionLimits};

use super::PgConn;
use super::commit::{commit, rollback};

diesel::table! {
    inbox.messages (subscription_id, message_id) {
        message_id -> Uuid,
        record_offset -> BigInt,
        subscription_id -> Integer,
        partition_id -> Integer,
        fingerprint -> Integer,
        state -> SmallInt,
        attempts -> Nullable<Integer>,
        class -> Nullable<Text>,
        reason -> Nullable<Text>,
        raw_id -> Nullable<Bytea>,
        business_key -> Nullable<Bytea>,
        headers -> Nullable<Bytea>,
        record_key -> Nullable<Bytea>,
        payload -> Nullable<Bytea>,
        record_time -> Nullable<BigInt>,
    }
}

const DEAD: i16 = 1;

#[derive(QueryableByName)]
struct Fenced {
    #[diesel(sql_type = Array<Integer>)]
    lost: Vec<i32>,
}

pub(super) async fn bury(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    letters: &[DeadLetter],
) -> Result<Buried, StoreError> {
    conn.begin(limits).await?;
    let lost = fence(conn.mark(), &conn.conn, &fences_of(letters)).await?;
    if !lost.is_empty() {
        rollback(conn).await?;
        return Ok(Buried::Fenced(lost));
    }
    let rows: Vec<_> = by_id(letters)
        .iter()
        .map(|(id, letter)| {
            let record = &letter.record;
            let bytes = letter.with_bytes;
            (
                messages::message_id.eq(id.as_uuid()),
                messages::record_offset.eq(record.offset().0),
                messages::subscription_id.eq(letter.subscription.0),
                messages::partition_id.eq(letter.fence.partition.0),
                messages::fingerprint.eq(record.fingerprint()),
                messages::state.eq(DEAD),
                messages::attempts.eq(i32::try_from(letter.attempts).unwrap_or(i32::MAX)),
                messages::class.eq(letter.class.as_str()),
                messages::reason.eq(letter.stored_reason()),
                messages::raw_id.eq(letter.id.as_str().as_bytes()),
                messages::business_key.eq(letter.key.as_ref().map(BusinessKey::as_bytes)),
                messages::headers.eq(bytes.then(|| letter.stored_headers())),
                messages::record_key.eq(record.key.as_deref().filter(|_| bytes)),
                messages::payload.eq(record.value.as_deref().filter(|_| bytes)),
                messages::record_time.eq(record.timestamp.map(|time| time.0)),
            )
        })
        .collect();
    let inserted = diesel::insert_into(messages::table)
        .values(&rows)
        .on_conflict_do_nothing()
        .execute(&mut &conn.conn)
        .await?;
    commit(conn).await?;
    Ok(Buried::Done { duplicates: letters.len() - inserted })
}

/// Locks the partitions in shared mode and answers with those that have another epoch.
async fn fence(
    mark: &str,
    mut pg: &AsyncPgConnection,
    fences: &[Fence],
) -> Result<Vec<PartitionId>, StoreError> {
    let partitions: Vec<i32> = fences.iter().map(|fence| fence.partition.0).collect();
    let epochs: Vec<Uuid> = fences.iter().map(|fence| fence.epoch.as_uuid()).collect();
    let Fenced { lost } = sql_query("SELECT inbox.fence($1, $2, $3) AS lost")
        .bind::<Text, _>(mark)
        .bind::<Array<Integer>, _>(partitions)
        .bind::<Array<SqlUuid>, _>(epochs)
        .get_result(&mut pg)
        .await?;
    Ok(lost.into_iter().map(PartitionId).collect())
}
