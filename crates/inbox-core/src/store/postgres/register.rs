//! Register: record subscriptions with group and rules, or find them recorded so.

use diesel::sql_types::{Array, BigInt, Bool, Integer, Text};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::identity::{Offset, Partition, SubscriptionId, Topic};
use crate::store::register::Recorded;
use crate::store::{First, RegisterError, Registration, StoreError, TransactionLimits};

use super::PgConn;
use super::commit::{commit, rollback};

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Text)]
    consumer_group: String,
    #[diesel(sql_type = Text)]
    id_rule: String,
    #[diesel(sql_type = Text)]
    key_rule: String,
}

#[derive(QueryableByName)]
struct Known {
    #[diesel(sql_type = Bool)]
    known: bool,
}

pub(super) async fn register(
    conn: &mut PgConn,
    group: &str,
    subscriptions: &[Registration],
) -> Result<Vec<SubscriptionId>, RegisterError> {
    conn.begin(&TransactionLimits::OWN).await?;
    match register_all(conn, group, subscriptions).await {
        Ok(ids) => {
            commit(conn).await?;
            Ok(ids)
        }
        Err(refused) => {
            rollback(conn).await?;
            Err(refused)
        }
    }
}

async fn register_all(
    conn: &PgConn,
    group: &str,
    subscriptions: &[Registration],
) -> Result<Vec<SubscriptionId>, RegisterError> {
    let known: Known = sql_query(
        "SELECT EXISTS (SELECT FROM inbox.subscriptions \
         WHERE consumer_group = $1 AND removed_at IS NULL) AS known",
    )
    .bind::<Text, _>(group)
    .get_result(&mut &conn.conn)
    .await
    .map_err(StoreError::from)?;
    let mut ids = Vec::with_capacity(subscriptions.len());
    for subscription in subscriptions {
        ids.push(register_one(conn, group, known.known, subscription).await?);
    }
    Ok(ids)
}

async fn register_one(
    conn: &PgConn,
    group: &str,
    group_is_known: bool,
    wanted: &Registration,
) -> Result<SubscriptionId, RegisterError> {
    let pg = &mut &conn.conn;
    let inserted = sql_query(
        "INSERT INTO inbox.subscriptions (name, consumer_group, id_rule, key_rule) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (name) WHERE removed_at IS NULL DO NOTHING",
    )
    .bind::<Text, _>(wanted.name.as_str())
    .bind::<Text, _>(group)
    .bind::<Text, _>(&wanted.id_rule)
    .bind::<Text, _>(&wanted.key_rule)
    .execute(pg)
    .await
    .map_err(StoreError::from)?;
    let row: Row = sql_query(
        "SELECT id, consumer_group, id_rule, key_rule FROM inbox.subscriptions \
         WHERE name = $1 AND removed_at IS NULL",
    )
    .bind::<Text, _>(wanted.name.as_str())
    .get_result(pg)
    .await
    .map_err(StoreError::from)?;
    let recorded = Recorded { group: row.consumer_group, id_rule: row.id_rule, key_rule: row.key_rule };
    wanted.check(group, recorded)?;
    if inserted > 0 {
        wanted.check_removed(group, was_removed(conn, wanted).await?)?;
        wanted.check_start(group, group_is_known)?;
        if let First::At(places) = &wanted.first {
            begin_at(conn, group, row.id, places).await?;
        }
    }
    Ok(SubscriptionId(row.id))
}

/// Whether a subscription of this name was there before and is not any more.
async fn was_removed(conn: &PgConn, wanted: &Registration) -> Result<bool, StoreError> {
    let removed: Known = sql_query(
        "SELECT EXISTS (SELECT FROM inbox.subscriptions WHERE name = $1 AND removed_at IS NOT NULL) AS known",
    )
    .bind::<Text, _>(wanted.name.as_str())
    .get_result(&mut &conn.conn)
    .await?;
    Ok(removed.known)
}

async fn begin_at(
    conn: &PgConn,
    group: &str,
    subscription: i32,
    places: &[(Topic, Partition, Offset)],
) -> Result<(), StoreError> {
    let pg = &mut &conn.conn;
    let topics: Vec<&str> = places.iter().map(|(topic, _, _)| topic.as_str()).collect();
    let partitions: Vec<i32> = places.iter().map(|(_, partition, _)| partition.0).collect();
    let offsets: Vec<i64> = places.iter().map(|(_, _, offset)| offset.0).collect();
    sql_query(
        "INSERT INTO inbox.partitions (consumer_group, topic, partition) \
         SELECT $1, u.topic, u.partition FROM unnest($2, $3) AS u (topic, partition) \
         ORDER BY u.topic, u.partition ON CONFLICT (consumer_group, topic, partition) DO NOTHING",
    )
    .bind::<Text, _>(group)
    .bind::<Array<Text>, _>(&topics)
    .bind::<Array<Integer>, _>(&partitions)
    .execute(pg)
    .await?;
    sql_query(
        "INSERT INTO inbox.watermarks (subscription_id, partition_id, first_watermark, watermark) \
         SELECT $1, p.id, u.first, u.first FROM unnest($3, $4, $5) AS u (topic, partition, first) \
         JOIN inbox.partitions p ON p.consumer_group = $2 AND p.topic = u.topic AND p.partition = u.partition",
    )
    .bind::<Integer, _>(subscription)
    .bind::<Text, _>(group)
    .bind::<Array<Text>, _>(&topics)
    .bind::<Array<Integer>, _>(&partitions)
    .bind::<Array<BigInt>, _>(&offsets)
    .execute(pg)
    .await?;
    Ok(())
}
