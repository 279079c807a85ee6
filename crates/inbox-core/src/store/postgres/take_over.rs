//! Take over: a new epoch, after every transaction under the old one has ended (P4).

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::failure::FailureClass;
use crate::identity::{Offset, PartitionId};
use crate::store::{StoreError, TakeOver, TakenOver, TransactionLimits};

use super::PgConn;
use super::commit::commit;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Integer)]
    incarnation: i32,
    #[diesel(sql_type = BigInt)]
    flush_number: i64,
    #[diesel(sql_type = BigInt)]
    number_before: i64,
}

#[derive(QueryableByName)]
struct Watermark {
    #[diesel(sql_type = Integer)]
    subscription_id: i32,
    #[diesel(sql_type = BigInt)]
    watermark: i64,
}

pub(super) async fn take_over(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    asked: &TakeOver,
) -> Result<TakenOver, StoreError> {
    conn.begin(limits).await?;
    let pg = &mut &conn.conn;
    // The row first, so that there is a number to lock; without touching one that is there.
    sql_query(
        "INSERT INTO inbox.partitions (consumer_group, topic, partition) VALUES ($1, $2, $3) \
         ON CONFLICT (consumer_group, topic, partition) DO NOTHING",
    )
    .bind::<Text, _>(&asked.group)
    .bind::<Text, _>(asked.topic.as_str())
    .bind::<Integer, _>(asked.partition.0)
    .execute(pg)
    .await?;
    // Exclusive: waits out every open transaction that has passed its check of the old epoch.
    sql_query(
        "SELECT pg_advisory_xact_lock(1768841832, id) FROM inbox.partitions \
         WHERE consumer_group = $1 AND topic = $2 AND partition = $3",
    )
    .bind::<Text, _>(&asked.group)
    .bind::<Text, _>(asked.topic.as_str())
    .bind::<Integer, _>(asked.partition.0)
    .execute(pg)
    .await?;
    let row: Row = sql_query(
        "UPDATE inbox.partitions p \
         SET epoch = $4, server = inbox.server(), owned_since = now(), flush_number = greatest(p.flush_number, $5) \
         FROM (SELECT id, flush_number FROM inbox.partitions \
               WHERE consumer_group = $1 AND topic = $2 AND partition = $3 FOR UPDATE) AS before \
         WHERE p.id = before.id \
         RETURNING p.id, p.incarnation, p.flush_number, before.flush_number AS number_before",
    )
    .bind::<Text, _>(&asked.group)
    .bind::<Text, _>(asked.topic.as_str())
    .bind::<Integer, _>(asked.partition.0)
    .bind::<SqlUuid, _>(asked.epoch.as_uuid())
    .bind::<Nullable<BigInt>, _>(asked.raise_number_to)
    .get_result(pg)
    .await?;
    let subscriptions: Vec<i32> = asked.subscriptions.iter().map(|subscription| subscription.0).collect();
    sql_query(
        "INSERT INTO inbox.watermarks (subscription_id, partition_id, first_watermark, watermark) \
         SELECT s.id, $1, $3, $3 FROM unnest($2) AS s (id) \
         ON CONFLICT (subscription_id, partition_id) DO NOTHING",
    )
    .bind::<Integer, _>(row.id)
    .bind::<Array<Integer>, _>(&subscriptions)
    .bind::<BigInt, _>(asked.first.0)
    .execute(pg)
    .await
    .map_err(|error| match error {
        // The partition's row is there: it is the subscription that is not.
        DieselError::DatabaseError(DatabaseErrorKind::ForeignKeyViolation, _) => StoreError::Unregistered,
        error => error.into(),
    })?;
    let found: Vec<Watermark> = sql_query(
        "SELECT subscription_id, watermark FROM inbox.watermarks \
         WHERE partition_id = $1 AND subscription_id = ANY ($2)",
    )
    .bind::<Integer, _>(row.id)
    .bind::<Array<Integer>, _>(&subscriptions)
    .load(pg)
    .await?;
    commit(conn).await?;
    let watermarks: Option<Vec<Offset>> = subscriptions
        .iter()
        .map(|id| found.iter().find(|w| w.subscription_id == *id).map(|w| Offset(w.watermark)))
        .collect();
    Ok(TakenOver {
        partition: PartitionId(row.id),
        incarnation: row.incarnation,
        flush_number: row.flush_number,
        number_before: row.number_before,
        watermarks: watermarks.ok_or_else(|| StoreError::Statement {
            class: FailureClass::Infrastructure,
            reason: "a watermark that was just written is not there".into(),
        })?,
    })
}
