//! Flush: watermark and number, compared and set.

use diesel::sql_types::{BigInt, Binary, Integer, Nullable};
use diesel::{RunQueryDsl, SqliteConnection, sql_query};

use crate::store::{Flush, Flushed, Prepared, StoreError, TransactionLimits};

use super::SqliteConn;

/// All partitions in one transaction: a lost one does not hold up the others.
pub(super) async fn flush(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    flushes: &[Flush],
) -> Result<Vec<Flushed>, StoreError> {
    let flushes = flushes.to_vec();
    conn.transaction(limits, move |sqlite| flushes.iter().map(|flush| flush_one(sqlite, flush)).collect())
        .await
}

fn flush_one(sqlite: &mut SqliteConnection, flush: &Flush) -> Result<Flushed, StoreError> {
    let partition = flush.fence.partition;
    let raise = sql_query(
        "UPDATE inbox_partitions SET flush_number = flush_number + 1, \
             last_offset = coalesce(?, last_offset), last_time = coalesce(?, last_time) \
         WHERE id = ? AND epoch = ? AND flush_number = ?",
    )
    .bind::<Nullable<BigInt>, _>(flush.last.map(|last| last.offset.0))
    .bind::<Nullable<BigInt>, _>(flush.last.map(|last| last.time.0))
    .bind::<Integer, _>(partition.0)
    .bind::<Binary, _>(flush.fence.epoch.as_uuid().into_bytes())
    .bind::<BigInt, _>(flush.number);
    if Prepared::of(raise).execute(sqlite)? == 0 {
        return Ok(Flushed::Lost { partition });
    }
    for moved in &flush.watermarks {
        // The lesser and the greater of null are null: without a time the old one stays.
        let write = sql_query(
            "UPDATE inbox_watermarks SET watermark = ?, time_at_watermark = \
                 coalesce(min(max(?, 0), CAST(unixepoch('subsec') * 1000 AS INTEGER)), time_at_watermark) \
             WHERE partition_id = ? AND subscription_id = ? AND watermark <= ?",
        )
        .bind::<BigInt, _>(moved.watermark.0)
        .bind::<Nullable<BigInt>, _>(moved.time.map(|time| time.0))
        .bind::<Integer, _>(partition.0)
        .bind::<Integer, _>(moved.subscription.0)
        .bind::<BigInt, _>(moved.watermark.0);
        Prepared::of(write).execute(sqlite)?;
    }
    Ok(Flushed::Written { partition, number: flush.number + 1 })
}
