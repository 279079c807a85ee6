//! Take over: a new epoch, after every transaction under the old one has ended (P4).

use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::failure::FailureClass;
use crate::identity::{BusinessKey, KeyId, Offset, PartitionId, SubscriptionId};
use crate::record::Timestamp;
use crate::store::clock::from_micros;
use crate::store::{LastRecord, Log, OpenKey, Standing, StoreError, TakeOver, TakenOver, TransactionLimits};

use super::PgConn;
use super::commit::{commit, rollback};

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
    #[diesel(sql_type = Integer)]
    subscription_id: i32,
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
    #[diesel(sql_type = Integer)]
    subscription_id: i32,
    #[diesel(sql_type = SqlUuid)]
    key_id: Uuid,
    #[diesel(sql_type = Nullable<Binary>)]
    business_key: Option<Vec<u8>>,
    #[diesel(sql_type = BigInt)]
    record_offset: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    due_in: Option<i64>,
}

pub(super) async fn take_over(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    asked: &TakeOver,
) -> Result<TakenOver, StoreError> {
    conn.begin(limits).await?;
    let subscriptions: Vec<i32> = asked.subscriptions.iter().map(|subscription| subscription.0).collect();
    let standings = standings(conn, &subscriptions).await?;
    if let Err(departed) = asked.check(&standings) {
        rollback(conn).await?;
        return Err(departed);
    }
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
         SET epoch = $4, server = inbox.server(), owned_since = now(), \
             flush_number = greatest(p.flush_number, $5), \
             cluster = coalesce(p.cluster, $6), topic_id = coalesce(p.topic_id, $7) \
         FROM (SELECT id, flush_number FROM inbox.partitions \
               WHERE consumer_group = $1 AND topic = $2 AND partition = $3 FOR UPDATE) AS before \
         WHERE p.id = before.id \
         RETURNING p.id, p.incarnation, p.flush_number, before.flush_number AS number_before, \
             p.cluster, p.topic_id, p.last_offset, p.last_time",
    )
    .bind::<Text, _>(&asked.group)
    .bind::<Text, _>(asked.topic.as_str())
    .bind::<Integer, _>(asked.partition.0)
    .bind::<SqlUuid, _>(asked.epoch.as_uuid())
    .bind::<Nullable<BigInt>, _>(asked.raise_number_to)
    .bind::<Text, _>(&asked.log.cluster)
    .bind::<Nullable<Text>, _>(&asked.log.topic_id)
    .get_result(pg)
    .await?;
    let log = Log { cluster: row.cluster, topic_id: row.topic_id };
    if let Err(other) = asked.check_log(&log, row.incarnation) {
        rollback(conn).await?;
        return Err(other);
    }
    let pg = &mut &conn.conn;
    sql_query(
        "INSERT INTO inbox.watermarks (subscription_id, partition_id, first_watermark, watermark) \
         SELECT s.id, $1, $3, $3 FROM unnest($2) AS s (id) \
         ON CONFLICT (subscription_id, partition_id) DO NOTHING",
    )
    .bind::<Integer, _>(row.id)
    .bind::<Array<Integer>, _>(&subscriptions)
    .bind::<BigInt, _>(asked.first.0)
    .execute(pg)
    .await?;
    let found: Vec<Watermark> = sql_query(
        "SELECT subscription_id, watermark FROM inbox.watermarks \
         WHERE partition_id = $1 AND subscription_id = ANY ($2)",
    )
    .bind::<Integer, _>(row.id)
    .bind::<Array<Integer>, _>(&subscriptions)
    .load(pg)
    .await?;
    let open = open_keys(conn, row.id, &subscriptions).await?;
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
        open,
        log,
        last: row
            .last_offset
            .zip(row.last_time)
            .map(|(offset, time)| LastRecord { offset: Offset(offset), time: Timestamp(time) }),
        watermarks: watermarks.ok_or_else(|| StoreError::Statement {
            class: FailureClass::Infrastructure,
            reason: "a watermark that was just written is not there".into(),
        })?,
    })
}

/// The head of each key: its first row, one step through the index for each. Behind a head there may be more rows
/// than a statement has time to pass: all of a hot key since it failed.
///
/// Whatever had started a head has ended: it was waited for, or comes too late.
const OPEN: &str = "\
    WITH RECURSIVE head AS ( \
        SELECT first.* FROM unnest($2) AS s (id) CROSS JOIN LATERAL ( \
            SELECT m.subscription_id, m.key_id, m.message_id, m.business_key, m.record_offset, m.state, m.due_at, \
                m.start_token \
            FROM inbox.messages m \
            WHERE m.subscription_id = s.id AND m.partition_id = $1 AND (m.state = 0 OR m.blocks_key) \
            ORDER BY m.key_id, m.incarnation, m.record_offset, m.message_id LIMIT 1 \
        ) AS first \
        UNION ALL \
        SELECT next.* FROM head CROSS JOIN LATERAL ( \
            SELECT m.subscription_id, m.key_id, m.message_id, m.business_key, m.record_offset, m.state, m.due_at, \
                m.start_token \
            FROM inbox.messages m \
            WHERE m.subscription_id = head.subscription_id AND m.partition_id = $1 AND m.key_id > head.key_id \
                AND (m.state = 0 OR m.blocks_key) \
            ORDER BY m.key_id, m.incarnation, m.record_offset, m.message_id LIMIT 1 \
        ) AS next \
    ), cleared AS ( \
        UPDATE inbox.messages m SET start_token = NULL, started_at = NULL FROM head \
        WHERE m.subscription_id = head.subscription_id AND m.message_id = head.message_id \
            AND head.start_token IS NOT NULL \
    ) \
    SELECT subscription_id, key_id, business_key, record_offset, \
        CASE WHEN state = 0 THEN \
            greatest(coalesce(extract(epoch FROM due_at - clock_timestamp()) * 1000000, 0), 0)::bigint END AS due_in \
    FROM head";

async fn open_keys(conn: &PgConn, partition: i32, subscriptions: &[i32]) -> Result<Vec<OpenKey>, StoreError> {
    let rows: Vec<OpenRow> = sql_query(OPEN)
        .bind::<Integer, _>(partition)
        .bind::<Array<Integer>, _>(subscriptions)
        .load(&mut &conn.conn)
        .await?;
    let key = |row: OpenRow| OpenKey {
        subscription: SubscriptionId(row.subscription_id),
        key: KeyId::from_uuid(row.key_id),
        business_key: row.business_key.as_deref().map(BusinessKey::new),
        offset: Offset(row.record_offset),
        due_in: row.due_in.map(from_micros),
    };
    Ok(rows.into_iter().map(key).collect())
}

/// Locked until the end of the transaction, and before anything of a partition is: a move or removal that
/// comes in between would leave a watermark behind that nobody moves.
async fn standings(conn: &PgConn, subscriptions: &[i32]) -> Result<Vec<Standing>, StoreError> {
    let rows: Vec<StandingRow> = sql_query(
        "SELECT id, name, consumer_group, removed_at IS NOT NULL AS removed FROM inbox.subscriptions \
         WHERE id = ANY ($1) ORDER BY id FOR SHARE",
    )
    .bind::<Array<Integer>, _>(subscriptions)
    .load(&mut &conn.conn)
    .await?;
    let standing = |row: StandingRow| Standing {
        id: row.id,
        name: row.name,
        group: row.consumer_group,
        removed: row.removed,
    };
    Ok(rows.into_iter().map(standing).collect())
}
