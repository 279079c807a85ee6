//! Register: record subscriptions with group and rules, or find them recorded so.

use diesel::sql_types::{BigInt, Bool, Integer, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use crate::identity::{Offset, Partition, SubscriptionId, Topic};
use crate::store::register::Recorded;
use crate::store::{First, RegisterError, Registration, StoreError, TransactionLimits};

use super::SqliteConn;

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
    conn: &mut SqliteConn,
    group: &str,
    subscriptions: &[Registration],
) -> Result<Vec<SubscriptionId>, RegisterError> {
    let (group, subscriptions) = (group.to_owned(), subscriptions.to_vec());
    conn.transaction(&TransactionLimits::OWN, move |sqlite| {
        let known: Known = sql_query(
            "SELECT EXISTS (SELECT 1 FROM inbox_subscriptions \
         WHERE consumer_group = ? AND removed_at IS NULL) AS known",
        )
        .bind::<Text, _>(&group)
        .get_result(sqlite)
        .map_err(StoreError::from)?;
        subscriptions
            .iter()
            .map(|subscription| register_one(sqlite, &group, known.known, subscription))
            .collect()
    })
    .await
}

fn register_one(
    sqlite: &mut SqliteConnection,
    group: &str,
    group_is_known: bool,
    wanted: &Registration,
) -> Result<SubscriptionId, RegisterError> {
    let inserted = sql_query(
        "INSERT INTO inbox_subscriptions (name, consumer_group, id_rule, key_rule) VALUES (?, ?, ?, ?) \
         ON CONFLICT (name) WHERE removed_at IS NULL DO NOTHING",
    )
    .bind::<Text, _>(wanted.name.as_str())
    .bind::<Text, _>(group)
    .bind::<Text, _>(&wanted.id_rule)
    .bind::<Text, _>(&wanted.key_rule)
    .execute(sqlite)
    .map_err(StoreError::from)?;
    let row: Row = sql_query(
        "SELECT id, consumer_group, id_rule, key_rule FROM inbox_subscriptions \
         WHERE name = ? AND removed_at IS NULL",
    )
    .bind::<Text, _>(wanted.name.as_str())
    .get_result(sqlite)
    .map_err(StoreError::from)?;
    let recorded = Recorded { group: row.consumer_group, id_rule: row.id_rule, key_rule: row.key_rule };
    wanted.check(group, recorded)?;
    if inserted > 0 {
        wanted.check_removed(group, was_removed(sqlite, wanted)?)?;
        wanted.check_start(group, group_is_known)?;
        if let First::At(places) = &wanted.first {
            for place in places {
                begin_at(sqlite, group, row.id, place)?;
            }
        }
    }
    Ok(SubscriptionId(row.id))
}

/// Whether a subscription of this name was there before and is not any more.
fn was_removed(sqlite: &mut SqliteConnection, wanted: &Registration) -> Result<bool, StoreError> {
    let removed: Known = sql_query(
        "SELECT EXISTS (SELECT 1 FROM inbox_subscriptions WHERE name = ? AND removed_at IS NOT NULL) AS known",
    )
    .bind::<Text, _>(wanted.name.as_str())
    .get_result(sqlite)?;
    Ok(removed.known)
}

fn begin_at(
    sqlite: &mut SqliteConnection,
    group: &str,
    subscription: i32,
    (topic, partition, first): &(Topic, Partition, Offset),
) -> Result<(), StoreError> {
    sql_query(
        "INSERT INTO inbox_partitions (consumer_group, topic, partition) VALUES (?, ?, ?) \
         ON CONFLICT (consumer_group, topic, partition) DO NOTHING",
    )
    .bind::<Text, _>(group)
    .bind::<Text, _>(topic.as_str())
    .bind::<Integer, _>(partition.0)
    .execute(sqlite)?;
    sql_query(
        "INSERT INTO inbox_watermarks (subscription_id, partition_id, first_watermark, watermark) \
         SELECT ?1, p.id, ?5, ?5 FROM inbox_partitions p \
         WHERE p.consumer_group = ?2 AND p.topic = ?3 AND p.partition = ?4",
    )
    .bind::<Integer, _>(subscription)
    .bind::<Text, _>(group)
    .bind::<Text, _>(topic.as_str())
    .bind::<Integer, _>(partition.0)
    .bind::<BigInt, _>(first.0)
    .execute(sqlite)?;
    Ok(())
}
