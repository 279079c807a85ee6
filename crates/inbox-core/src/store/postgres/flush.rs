//! Flush: watermark and number, compared and set.

use diesel::sql_types::{Array, BigInt, Integer, Nullable, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::store::{Flush, Flushed, Prepared, StoreError, TransactionLimits};

use super::PgConn;
use super::commit::commit;

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    flush_number: i64,
}

/// All partitions in one transaction: a lost one does not hold up the others.
pub(super) async fn flush(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    flushes: &[Flush],
) -> Result<Vec<Flushed>, StoreError> {
    conn.begin(limits).await?;
    let mut answers = Vec::with_capacity(flushes.len());
    for flush in flushes {
        answers.push(flush_one(conn, flush).await?);
    }
    commit(conn).await?;
    Ok(answers)
}

async fn flush_one(conn: &PgConn, flush: &Flush) -> Result<Flushed, StoreError> {
    let partition = flush.fence.partition;
    // A take-over waits for this row, and this statement for a take-over: it then sees its epoch.
    let raise = sql_query(
        "UPDATE inbox.partitions SET flush_number = flush_number + 1 \
         WHERE id = $1 AND epoch = $2 AND flush_number = $3 RETURNING flush_number",
    )
    .bind::<Integer, _>(partition.0)
    .bind::<SqlUuid, _>(flush.fence.epoch.as_uuid())
    .bind::<BigInt, _>(flush.number);
    let raised: Vec<Number> = Prepared(raise).load(&mut &conn.conn).await?;
    let Some(Number { flush_number }) = raised.as_slice().first() else {
        return Ok(Flushed::Lost { partition });
    };
    let subscriptions: Vec<i32> = flush.watermarks.iter().map(|w| w.subscription.0).collect();
    let watermarks: Vec<i64> = flush.watermarks.iter().map(|w| w.watermark.0).collect();
    let times: Vec<Option<i64>> = flush.watermarks.iter().map(|w| w.time.map(|time| time.0)).collect();
    // Milliseconds that no timestamptz can hold are clamped before they are converted.
    let write = sql_query(
        "UPDATE inbox.watermarks w \
         SET watermark = u.watermark, \
             time_at_watermark = coalesce( \
                 to_timestamp(least(greatest(u.time, 0), extract(epoch FROM now()) * 1000)::float8 / 1000), \
                 w.time_at_watermark) \
         FROM unnest($2, $3, $4) AS u (subscription_id, watermark, time) \
         WHERE w.partition_id = $1 AND w.subscription_id = u.subscription_id AND w.watermark <= u.watermark",
    )
    .bind::<Integer, _>(partition.0)
    .bind::<Array<Integer>, _>(subscriptions)
    .bind::<Array<BigInt>, _>(watermarks)
    .bind::<Array<Nullable<BigInt>>, _>(times);
    Prepared(write).execute(&mut &conn.conn).await?;
    Ok(Flushed::Written { partition, number: *flush_number })
}
