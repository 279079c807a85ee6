//! Accept log: a new incarnation, and watermarks for it.

use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::identity::Partition;
use crate::store::{AcceptLog, LogStart, StoreError, TransactionLimits};

use super::PgConn;
use super::commit::commit;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Integer)]
    partition: i32,
}

pub(super) async fn accept_log(conn: &mut PgConn, asked: &AcceptLog) -> Result<Vec<Partition>, StoreError> {
    conn.begin(&TransactionLimits::OWN).await?;
    let pg = &mut &conn.conn;
    // Exclusive, as at a take-over, and in the order in which batches lock them.
    sql_query(
        "SELECT pg_advisory_xact_lock(1768841832, p.id) FROM (SELECT id FROM inbox.partitions \
         WHERE consumer_group = $1 AND topic = $2 AND partition = coalesce($3, partition) ORDER BY id) AS p",
    )
    .bind::<Text, _>(&asked.group)
    .bind::<Text, _>(asked.topic.as_str())
    .bind::<Nullable<Integer>, _>(asked.partition.map(|partition| partition.0))
    .execute(pg)
    .await?;
    // Without an epoch nobody owns it: whoever did begins anew.
    let accepted: Vec<Row> = sql_query(
        "UPDATE inbox.partitions SET incarnation = incarnation + 1, epoch = NULL, \
             cluster = NULL, topic_id = NULL, last_offset = NULL, last_time = NULL \
         WHERE consumer_group = $1 AND topic = $2 AND partition = coalesce($3, partition) AND incarnation = $4 \
         RETURNING id, partition",
    )
    .bind::<Text, _>(&asked.group)
    .bind::<Text, _>(asked.topic.as_str())
    .bind::<Nullable<Integer>, _>(asked.partition.map(|partition| partition.0))
    .bind::<Integer, _>(asked.incarnation)
    .load(pg)
    .await?;
    let ids: Vec<i32> = accepted.iter().map(|row| row.id).collect();
    match asked.from {
        // The next take-over begins at the first record, as for a partition that was never here.
        LogStart::Earliest => {
            sql_query("DELETE FROM inbox.watermarks WHERE partition_id = ANY ($1)")
                .bind::<Array<Integer>, _>(&ids)
                .execute(pg)
                .await?;
        }
        LogStart::At(offset) => {
            sql_query(
                "UPDATE inbox.watermarks SET first_watermark = $2, watermark = $2 WHERE partition_id = ANY ($1)",
            )
            .bind::<Array<Integer>, _>(&ids)
            .bind::<BigInt, _>(offset.0)
            .execute(pg)
            .await?;
        }
    }
    commit(conn).await?;
    let mut partitions: Vec<_> = accepted.iter().map(|row| Partition(row.partition)).collect();
    partitions.sort_unstable();
    Ok(partitions)
}
