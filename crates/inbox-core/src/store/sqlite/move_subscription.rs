//! Move: the subscription's watermarks become those of the new group's partitions.

use std::sync::Arc;

use diesel::sql_types::{BigInt, Integer, Text};
use diesel::{OptionalExtension, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use crate::identity::{Partition, Topic};
use crate::store::move_subscription::{Step, check_groups, step};
use crate::store::{MoveError, Moved, StoreError, TransactionLimits};

use super::SqliteConn;
use super::file::DatabaseFile;

/// Rows that one transaction changes.
const BATCH: i64 = 10_000;

#[derive(QueryableByName)]
struct Found {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Text)]
    consumer_group: String,
}

/// One of its partitions.
#[derive(QueryableByName)]
struct Its {
    #[diesel(sql_type = Integer)]
    partition: i32,
}

#[derive(QueryableByName)]
struct Place {
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Integer)]
    partition: i32,
}

pub(super) async fn move_subscription(
    file: &Arc<DatabaseFile>,
    name: &str,
    from: &str,
    to: &str,
) -> Result<Moved, MoveError> {
    check_groups(from, to)?;
    let mut conn = SqliteConn::open(file).await?;
    let (name, from, to) = (name.to_owned(), from.to_owned(), to.to_owned());
    let (asked_from, asked_to) = (from.clone(), to.clone());
    let (subscription, watermarks, mut rows) = conn
        .transaction(&TransactionLimits::OWN, move |sqlite| {
            in_transaction(sqlite, &name, &asked_from, &asked_to)
        })
        .await?;
    loop {
        let (from, to) = (from.clone(), to.clone());
        let changed = conn
            .transaction(&TransactionLimits::OWN, move |sqlite| repoint(sqlite, subscription, &from, &to))
            .await?;
        rows += changed;
        if changed == 0 {
            return Ok(Moved { watermarks, rows });
        }
    }
}

/// Answers with the subscription, and how many watermarks and unfinished rows went over. Nobody else has a
/// transaction open: what was begun under an old epoch has ended.
fn in_transaction(
    sqlite: &mut SqliteConnection,
    name: &str,
    from: &str,
    to: &str,
) -> Result<(i32, u64, u64), MoveError> {
    let found: Option<Found> =
        sql_query("SELECT id, consumer_group FROM inbox_subscriptions WHERE name = ? AND removed_at IS NULL")
            .bind::<Text, _>(name)
            .get_result(sqlite)
            .optional()?;
    let todo = step(name, found.as_ref().map(|found| &*found.consumer_group), from, to)?;
    let Some(Found { id, .. }) = found else { unreachable!("what is not there has no step") };
    if todo == Step::Finish {
        return Ok((id, 0, 0));
    }
    let its: Vec<Its> = sql_query(ITS).bind::<Integer, _>(id).load(sqlite)?;
    for Its { partition } in its {
        let other_log: Option<Place> = sql_query(OTHER_LOG)
            .bind::<Integer, _>(partition)
            .bind::<Text, _>(to)
            .get_result(sqlite)
            .optional()?;
        if let Some(Place { topic, partition }) = other_log {
            return Err(MoveError::OtherLog { topic: Topic::new(topic), partition: Partition(partition) });
        }
        for sql in [FENCE, PARTITIONS, LOGS, UNTOLD] {
            sql_query(sql).bind::<Integer, _>(partition).bind::<Text, _>(to).execute(sqlite)?;
        }
    }
    sql_query(GROUP).bind::<Integer, _>(id).bind::<Text, _>(to).execute(sqlite)?;
    let watermarks = sql_query(WATERMARKS).bind::<Integer, _>(id).bind::<Text, _>(to).execute(sqlite)?;
    // The few that a take-over looks for by their partition; receipts follow.
    let rows = sql_query(UNFINISHED)
        .bind::<Integer, _>(id)
        .bind::<Text, _>(to)
        .bind::<Text, _>(from)
        .execute(sqlite)?;
    let [watermarks, rows] = [watermarks, rows].map(|n| u64::try_from(n).unwrap_or(u64::MAX));
    Ok((id, watermarks, rows))
}

/// The partitions where it has a watermark, or, between an acceptance and the next take-over, where only its
/// unfinished rows tell.
const ITS: &str = "\
    SELECT p.id AS partition FROM inbox_partitions p \
    WHERE EXISTS (SELECT 1 FROM inbox_watermarks w WHERE w.subscription_id = ?1 AND w.partition_id = p.id) \
        OR EXISTS (SELECT 1 FROM inbox_messages AS m INDEXED BY inbox_messages_not_done \
                   WHERE m.subscription_id = ?1 AND m.partition_id = p.id AND m.state <> 2) \
    ORDER BY p.id";

const FENCE: &str = "UPDATE inbox_partitions SET epoch = NULL WHERE ?2 IS NOT NULL AND id = ?1";

/// A subscription that is there already has watermarks for the log that is recorded there.
const OTHER_LOG: &str = "\
    SELECT f.topic, f.partition FROM inbox_partitions f \
    JOIN inbox_partitions t ON t.consumer_group = ?2 AND t.topic = f.topic AND t.partition = f.partition \
    WHERE f.id = ?1 AND EXISTS (SELECT 1 FROM inbox_watermarks w WHERE w.partition_id = t.id) \
        AND (t.incarnation <> f.incarnation OR t.cluster <> f.cluster OR t.topic_id <> f.topic_id)";

const PARTITIONS: &str = "\
    INSERT INTO inbox_partitions (consumer_group, topic, partition) \
    SELECT ?2, f.topic, f.partition FROM inbox_partitions f WHERE f.id = ?1 \
    ON CONFLICT (consumer_group, topic, partition) DO NOTHING";

/// Where no subscription is, the log is the one that the moved watermarks mean, and so are the parts that
/// ids made of offsets have of it.
const LOGS: &str = "\
    UPDATE inbox_partitions SET incarnation = f.incarnation, cluster = f.cluster, topic_id = f.topic_id, \
        last_offset = f.last_offset, last_time = f.last_time \
    FROM inbox_partitions f \
    WHERE f.id = ?1 AND inbox_partitions.consumer_group = ?2 \
        AND inbox_partitions.topic = f.topic AND inbox_partitions.partition = f.partition \
        AND NOT EXISTS (SELECT 1 FROM inbox_watermarks w WHERE w.partition_id = inbox_partitions.id)";

/// Where there is one, and the log was not told yet: if it turns out to be another one, it stops.
const UNTOLD: &str = "\
    UPDATE inbox_partitions SET cluster = coalesce(inbox_partitions.cluster, f.cluster), \
        topic_id = coalesce(inbox_partitions.topic_id, f.topic_id) \
    FROM inbox_partitions f \
    WHERE f.id = ?1 AND inbox_partitions.consumer_group = ?2 \
        AND inbox_partitions.topic = f.topic AND inbox_partitions.partition = f.partition";

const GROUP: &str = "UPDATE inbox_subscriptions SET consumer_group = ?2 WHERE id = ?1";

const WATERMARKS: &str = "\
    UPDATE inbox_watermarks SET partition_id = t.id \
    FROM inbox_partitions f JOIN inbox_partitions t ON t.topic = f.topic AND t.partition = f.partition \
    WHERE inbox_watermarks.subscription_id = ?1 AND inbox_watermarks.partition_id = f.id AND t.consumer_group = ?2";

const UNFINISHED: &str = "\
    UPDATE inbox_messages SET partition_id = t.id \
    FROM inbox_partitions f JOIN inbox_partitions t ON t.topic = f.topic AND t.partition = f.partition \
    WHERE inbox_messages.subscription_id = ?1 AND inbox_messages.state <> 2 \
        AND inbox_messages.partition_id = f.id AND f.consumer_group = ?3 AND t.consumer_group = ?2";

const RECEIPTS: &str = "\
    UPDATE inbox_messages SET partition_id = t.id \
    FROM inbox_partitions f JOIN inbox_partitions t ON t.topic = f.topic AND t.partition = f.partition \
    WHERE inbox_messages.subscription_id = ?1 AND inbox_messages.partition_id = f.id \
        AND f.consumer_group = ?3 AND t.consumer_group = ?2 \
        AND inbox_messages.message_id IN ( \
            SELECT m.message_id FROM inbox_messages m JOIN inbox_partitions o ON o.id = m.partition_id \
            WHERE m.subscription_id = ?1 AND o.consumer_group = ?3 LIMIT ?4)";

fn repoint(
    sqlite: &mut SqliteConnection,
    subscription: i32,
    from: &str,
    to: &str,
) -> Result<u64, StoreError> {
    let rows = sql_query(RECEIPTS)
        .bind::<Integer, _>(subscription)
        .bind::<Text, _>(to)
        .bind::<Text, _>(from)
        .bind::<BigInt, _>(BATCH)
        .execute(sqlite)?;
    Ok(u64::try_from(rows).unwrap_or(u64::MAX))
}
