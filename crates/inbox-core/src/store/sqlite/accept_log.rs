//! Accept log: a new incarnation, and watermarks for it.

use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use crate::identity::Partition;
use crate::store::{AcceptLog, LogStart, StoreError, TransactionLimits};

use super::SqliteConn;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Integer)]
    partition: i32,
}

pub(super) async fn accept_log(
    conn: &mut SqliteConn,
    asked: &AcceptLog,
) -> Result<Vec<Partition>, StoreError> {
    let asked = asked.clone();
    conn.transaction(&TransactionLimits::OWN, move |sqlite| {
        // Without an epoch nobody owns it: whoever did begins anew.
        let accepted: Vec<Row> = sql_query(
            "UPDATE inbox_partitions SET incarnation = incarnation + 1, epoch = NULL, \
                 cluster = NULL, topic_id = NULL, last_offset = NULL, last_time = NULL \
             WHERE consumer_group = ? AND topic = ? AND partition = coalesce(?, partition) AND incarnation = ? \
             RETURNING id, partition",
        )
        .bind::<Text, _>(&asked.group)
        .bind::<Text, _>(asked.topic.as_str())
        .bind::<Nullable<Integer>, _>(asked.partition.map(|partition| partition.0))
        .bind::<Integer, _>(asked.incarnation)
        .load(sqlite)?;
        for row in &accepted {
            begin(sqlite, row.id, asked.from)?;
        }
        let mut partitions: Vec<_> = accepted.iter().map(|row| Partition(row.partition)).collect();
        partitions.sort_unstable();
        Ok(partitions)
    })
    .await
}

fn begin(sqlite: &mut SqliteConnection, partition: i32, from: LogStart) -> Result<(), StoreError> {
    match from {
        // The next take-over begins at the first record, as for a partition that was never here.
        LogStart::Earliest => sql_query("DELETE FROM inbox_watermarks WHERE partition_id = ?")
            .bind::<Integer, _>(partition)
            .execute(sqlite)?,
        LogStart::At(offset) => sql_query(
            "UPDATE inbox_watermarks SET first_watermark = ?1, watermark = ?1 WHERE partition_id = ?2",
        )
        .bind::<BigInt, _>(offset.0)
        .bind::<Integer, _>(partition)
        .execute(sqlite)?,
    };
    Ok(())
}
