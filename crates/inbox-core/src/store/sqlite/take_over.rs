//! Take over: a new epoch, after every transaction under the old one has ended (P4).

use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text};
use diesel::{OptionalExtension, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};
use uuid::Uuid;

use crate::failure::FailureClass;
use crate::identity::{BusinessKey, KeyId, Offset, PartitionId, SubscriptionId};
use crate::record::Timestamp;
use crate::store::clock::from_millis;
use crate::store::{LastRecord, Log, OpenKey, Standing, StoreError, TakeOver, TakenOver, TransactionLimits};

use super::SqliteConn;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Integer)]
    incarnation: i32,
    #[diesel(sql_type = BigInt)]
    flush_number: i64,
    #[diesel(sql_type = Text)]
    cluster: String,
    #[diesel(sql_type = Nullable<Text>)]
    topic_id: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    last_offset: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    last_time: Option<i64>,
}

#[derive(QueryableByName)]
struct Watermark {
    #[diesel(sql_type = BigInt)]
    watermark: i64,
}

#[derive(QueryableByName)]
struct StandingRow {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    consumer_group: String,
    #[diesel(sql_type = Bool)]
    removed: bool,
}

#[derive(QueryableByName)]
struct OpenRow {
    #[diesel(sql_type = Binary)]
    message_id: Vec<u8>,
    #[diesel(sql_type = Bool)]
    started: bool,
    #[diesel(sql_type = Binary)]
    key_id: Vec<u8>,
    #[diesel(sql_type = Nullable<Binary>)]
    business_key: Option<Vec<u8>>,
    #[diesel(sql_type = BigInt)]
    record_offset: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    due_in: Option<i64>,
}

/// It waits out the old owner's transactions because it waits for every transaction.
pub(super) async fn take_over(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    asked: &TakeOver,
) -> Result<TakenOver, StoreError> {
    let asked = asked.clone();
    conn.transaction(limits, move |sqlite| {
        asked.check(&standings(sqlite, &asked.subscriptions)?)?;
        let row = raise(sqlite, &asked)?;
        let log = Log { cluster: row.cluster, topic_id: row.topic_id };
        asked.check_log(&log, row.incarnation)?;
        let flush_number = asked.raise_number_to.unwrap_or_default().max(row.flush_number);
        if flush_number > row.flush_number {
            sql_query("UPDATE inbox_partitions SET flush_number = ? WHERE id = ?")
                .bind::<BigInt, _>(flush_number)
                .bind::<Integer, _>(row.id)
                .execute(sqlite)?;
        }
        let watermarks: Result<_, StoreError> = asked
            .subscriptions
            .iter()
            .map(|subscription| watermark(sqlite, row.id, *subscription, asked.first))
            .collect();
        Ok(TakenOver {
            partition: PartitionId(row.id),
            incarnation: row.incarnation,
            flush_number,
            number_before: row.flush_number,
            watermarks: watermarks?,
            open: open_keys(sqlite, row.id, &asked.subscriptions)?,
            log,
            last: row
                .last_offset
                .zip(row.last_time)
                .map(|(offset, time)| LastRecord { offset: Offset(offset), time: Timestamp(time) }),
        })
    })
    .await
}

fn raise(sqlite: &mut SqliteConnection, asked: &TakeOver) -> Result<Row, StoreError> {
    let query = sql_query(
        "INSERT INTO inbox_partitions AS p (consumer_group, topic, partition, epoch, cluster, topic_id, owned_since) \
         VALUES (?, ?, ?, ?, ?, ?, CAST(unixepoch('subsec') * 1000 AS INTEGER)) \
         ON CONFLICT (consumer_group, topic, partition) \
         DO UPDATE SET epoch = excluded.epoch, owned_since = excluded.owned_since, \
             cluster = coalesce(p.cluster, excluded.cluster), topic_id = coalesce(p.topic_id, excluded.topic_id) \
         RETURNING id, incarnation, flush_number, cluster, topic_id, last_offset, last_time",
    )
    .bind::<Text, _>(&asked.group)
    .bind::<Text, _>(asked.topic.as_str())
    .bind::<Integer, _>(asked.partition.0)
    .bind::<Binary, _>(asked.epoch.as_uuid().into_bytes())
    .bind::<Text, _>(&asked.log.cluster)
    .bind::<Nullable<Text>, _>(&asked.log.topic_id);
    Ok(query.get_result(sqlite)?)
}

fn watermark(
    sqlite: &mut SqliteConnection,
    partition: i32,
    subscription: SubscriptionId,
    first: Offset,
) -> Result<Offset, StoreError> {
    sql_query(
        "INSERT INTO inbox_watermarks (subscription_id, partition_id, first_watermark, watermark) \
         VALUES (?1, ?2, ?3, ?3) ON CONFLICT (subscription_id, partition_id) DO NOTHING",
    )
    .bind::<Integer, _>(subscription.0)
    .bind::<Integer, _>(partition)
    .bind::<BigInt, _>(first.0)
    .execute(sqlite)?;
    let found: Watermark =
        sql_query("SELECT watermark FROM inbox_watermarks WHERE subscription_id = ? AND partition_id = ?")
            .bind::<Integer, _>(subscription.0)
            .bind::<Integer, _>(partition)
            .get_result(sqlite)?;
    Ok(Offset(found.watermark))
}

/// The head of each key: its first row, one step through the index for each. Behind a head there may be more rows
/// than a statement has time to pass: all of a hot key since it failed.
const OPEN: &str = "\
    WITH RECURSIVE keys (key_id) AS ( \
        SELECT min(key_id) FROM inbox_messages INDEXED BY inbox_messages_of_key \
        WHERE subscription_id = ?1 AND partition_id = ?2 AND (state = 0 OR blocks_key) \
        UNION ALL \
        SELECT ( \
            SELECT min(m.key_id) FROM inbox_messages AS m INDEXED BY inbox_messages_of_key \
            WHERE m.subscription_id = ?1 AND m.partition_id = ?2 AND m.key_id > keys.key_id \
                AND (m.state = 0 OR m.blocks_key) \
        ) FROM keys WHERE keys.key_id IS NOT NULL \
    ) \
    SELECT head.message_id, head.key_id, head.business_key, head.record_offset, \
        head.start_token IS NOT NULL AS started, \
        iif(head.state = 1, NULL, max(coalesce(head.due_at - clock.now, 0), 0)) AS due_in \
    FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now) AS clock CROSS JOIN keys \
    CROSS JOIN inbox_messages AS head ON head.subscription_id = ?1 AND head.message_id = ( \
        SELECT m.message_id FROM inbox_messages AS m INDEXED BY inbox_messages_of_key \
        WHERE m.subscription_id = ?1 AND m.partition_id = ?2 AND m.key_id = keys.key_id \
            AND (m.state = 0 OR m.blocks_key) \
        ORDER BY m.incarnation, m.record_offset, m.message_id LIMIT 1)";

/// Whatever had started a head has ended: it was waited for, or comes too late.
const CLEAR: &str = "\
    UPDATE inbox_messages SET start_token = NULL, started_at = NULL WHERE subscription_id = ? AND message_id = ?";

fn open_keys(
    sqlite: &mut SqliteConnection,
    partition: i32,
    subscriptions: &[SubscriptionId],
) -> Result<Vec<OpenKey>, StoreError> {
    let mut open = Vec::new();
    for subscription in subscriptions {
        let rows: Vec<OpenRow> =
            sql_query(OPEN).bind::<Integer, _>(subscription.0).bind::<Integer, _>(partition).load(sqlite)?;
        for row in rows {
            let key = Uuid::from_slice(&row.key_id).map_err(|_| StoreError::Statement {
                class: FailureClass::Infrastructure,
                reason: "an open row has a key that is no key".into(),
            })?;
            if row.started {
                sql_query(CLEAR)
                    .bind::<Integer, _>(subscription.0)
                    .bind::<Binary, _>(row.message_id)
                    .execute(sqlite)?;
            }
            let due_in = row.due_in.map(from_millis);
            open.push(OpenKey {
                subscription: *subscription,
                key: KeyId::from_uuid(key),
                business_key: row.business_key.as_deref().map(BusinessKey::new),
                offset: Offset(row.record_offset),
                due_in,
            });
        }
    }
    Ok(open)
}

fn standings(
    sqlite: &mut SqliteConnection,
    subscriptions: &[SubscriptionId],
) -> Result<Vec<Standing>, StoreError> {
    let mut standings = Vec::with_capacity(subscriptions.len());
    for subscription in subscriptions {
        let row: Option<StandingRow> = sql_query(
            "SELECT id, name, consumer_group, removed_at IS NOT NULL AS removed FROM inbox_subscriptions WHERE id = ?",
        )
        .bind::<Integer, _>(subscription.0)
        .get_result(sqlite)
        .optional()?;
        standings.extend(row.map(|row| Standing {
            id: row.id,
            name: row.name,
            group: row.consumer_group,
            removed: row.removed,
        }));
    }
    Ok(standings)
}
