//! Flush: watermarks and numbers, compared and set.

use diesel::sql_types::{Array, BigInt, Integer, Nullable, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::store::{Flush, Flushed, Prepared, StoreError, TransactionLimits};

use super::PgConn;
use super::commit::commit;

#[derive(QueryableByName)]
struct Raised {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = BigInt)]
    flush_number: i64,
}

/// One statement for all partitions, and a lost one does not hold up the others.
///
/// What was finished on another server may be missing on this one, so its watermark is not written.
///
/// A take-over waits for the partition's row, or this statement for a take-over: it then sees the new
/// epoch. Milliseconds that no timestamptz can hold are clamped before they are converted; null is
/// asked for first, since the lesser and the greater of null and a number are the number.
const FLUSH: &str = "\
    WITH here AS MATERIALIZED (SELECT inbox.server() AS server), raised AS ( \
        UPDATE inbox.partitions p SET flush_number = p.flush_number + 1, \
            last_offset = coalesce(a.last_offset, p.last_offset), last_time = coalesce(a.last_time, p.last_time) \
        FROM unnest($1, $2, $3, $8, $9) AS a (id, epoch, number, last_offset, last_time), here \
        WHERE p.id = a.id AND p.epoch = a.epoch AND p.flush_number = a.number AND p.server = here.server \
        RETURNING p.id, p.flush_number \
    ), written AS ( \
        UPDATE inbox.watermarks w \
        SET watermark = u.watermark, \
            time_at_watermark = CASE WHEN u.time IS NULL THEN w.time_at_watermark \
                ELSE to_timestamp(least(greatest(u.time, 0), extract(epoch FROM now()) * 1000)::float8 / 1000) END \
        FROM unnest($4, $5, $6, $7) AS u (partition_id, subscription_id, watermark, time) \
        JOIN raised r ON r.id = u.partition_id \
        WHERE w.partition_id = u.partition_id AND w.subscription_id = u.subscription_id \
            AND w.watermark <= u.watermark \
    ) \
    SELECT id, flush_number FROM raised";

pub(super) async fn flush(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    flushes: &[Flush],
) -> Result<Vec<Flushed>, StoreError> {
    let ids: Vec<i32> = flushes.iter().map(|flush| flush.fence.partition.0).collect();
    let epochs: Vec<Uuid> = flushes.iter().map(|flush| flush.fence.epoch.as_uuid()).collect();
    let numbers: Vec<i64> = flushes.iter().map(|flush| flush.number).collect();
    let lasts: Vec<Option<i64>> = flushes.iter().map(|flush| flush.last.map(|last| last.offset.0)).collect();
    let last_times: Vec<Option<i64>> =
        flushes.iter().map(|flush| flush.last.map(|last| last.time.0)).collect();
    let rows: Vec<_> = flushes
        .iter()
        .flat_map(|flush| flush.watermarks.iter().map(|w| (flush.fence.partition.0, w)))
        .collect();
    let partitions: Vec<i32> = rows.iter().map(|(partition, _)| *partition).collect();
    let subscriptions: Vec<i32> = rows.iter().map(|(_, w)| w.subscription.0).collect();
    let watermarks: Vec<i64> = rows.iter().map(|(_, w)| w.watermark.0).collect();
    let times: Vec<Option<i64>> = rows.iter().map(|(_, w)| w.time.map(|time| time.0)).collect();

    conn.begin(limits).await?;
    let query = sql_query(FLUSH)
        .bind::<Array<Integer>, _>(ids)
        .bind::<Array<SqlUuid>, _>(epochs)
        .bind::<Array<BigInt>, _>(numbers)
        .bind::<Array<Integer>, _>(partitions)
        .bind::<Array<Integer>, _>(subscriptions)
        .bind::<Array<BigInt>, _>(watermarks)
        .bind::<Array<Nullable<BigInt>>, _>(times)
        .bind::<Array<Nullable<BigInt>>, _>(lasts)
        .bind::<Array<Nullable<BigInt>>, _>(last_times);
    let raised: Vec<Raised> = Prepared::of(query).load(&mut &conn.conn).await?;
    commit(conn).await?;
    let answer = |flush: &Flush| {
        let partition = flush.fence.partition;
        match raised.iter().find(|row| row.id == partition.0) {
            Some(row) => Flushed::Written { partition, number: row.flush_number },
            None => Flushed::Lost { partition },
        }
    };
    Ok(flushes.iter().map(answer).collect())
}
