//! Remove: the subscription is fenced and marked, then its rows go.

use std::sync::Arc;

use diesel::sql_types::{BigInt, Integer, Text};
use diesel::{OptionalExtension, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use crate::identity::SubscriptionName;
use crate::store::remove::{check, check_unfinished};
use crate::store::{OnUnfinished, RemoveError, Removed, StoreError, TransactionLimits};

use super::SqliteConn;
use super::file::DatabaseFile;

/// Rows that one transaction deletes.
const BATCH: i64 = 10_000;

#[derive(QueryableByName)]
struct Found {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Text)]
    consumer_group: String,
}

#[derive(QueryableByName)]
struct Unfinished {
    #[diesel(sql_type = BigInt)]
    open: i64,
    #[diesel(sql_type = BigInt)]
    dead: i64,
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Integer)]
    id: i32,
}

pub(super) async fn remove(
    file: &Arc<DatabaseFile>,
    name: &str,
    group: &str,
    unfinished: OnUnfinished,
) -> Result<Removed, RemoveError> {
    let mut conn = SqliteConn::open(file).await?;
    let (name, group) = (name.to_owned(), group.to_owned());
    let removed = conn
        .transaction(&TransactionLimits::OWN, move |sqlite| in_transaction(sqlite, &name, &group, unfinished))
        .await?;
    let mut rows = 0;
    for subscription in removed {
        loop {
            let deleted = conn
                .transaction(&TransactionLimits::OWN, move |sqlite| delete_rows(sqlite, subscription))
                .await?;
            rows += deleted;
            if deleted == 0 {
                break;
            }
        }
    }
    Ok(Removed { rows })
}

/// Nobody else has a transaction open: what was begun under an old epoch has ended. Answers with the
/// numbers of all subscriptions of this name that are removed from this group, so that what an earlier
/// call did not come to is done too.
fn in_transaction(
    sqlite: &mut SqliteConnection,
    name: &str,
    group: &str,
    unfinished: OnUnfinished,
) -> Result<Vec<i32>, RemoveError> {
    let found: Option<Found> =
        sql_query("SELECT id, consumer_group FROM inbox_subscriptions WHERE name = ? AND removed_at IS NULL")
            .bind::<Text, _>(name)
            .get_result(sqlite)
            .optional()?;
    if let Some(Found { id, consumer_group }) = found {
        check(name, &consumer_group, group)?;
        let rows: Unfinished = sql_query(
            "SELECT count(*) FILTER (WHERE state = 0) AS open, count(*) FILTER (WHERE state = 1) AS dead \
             FROM inbox_messages WHERE subscription_id = ? AND state <> 2",
        )
        .bind::<Integer, _>(id)
        .get_result(sqlite)?;
        check_unfinished(name, (rows.open, rows.dead), unfinished)?;
        for sql in [FENCE, WATERMARKS, MARK] {
            sql_query(sql).bind::<Integer, _>(id).execute(sqlite)?;
        }
    }
    let removed: Vec<Number> = sql_query(
        "SELECT id FROM inbox_subscriptions WHERE name = ? AND consumer_group = ? AND removed_at IS NOT NULL",
    )
    .bind::<Text, _>(name)
    .bind::<Text, _>(group)
    .load(sqlite)?;
    if removed.is_empty() {
        return Err(RemoveError::Unknown { name: SubscriptionName::new(name) });
    }
    Ok(removed.into_iter().map(|number| number.id).collect())
}

const FENCE: &str = "\
    UPDATE inbox_partitions SET epoch = NULL \
    WHERE id IN (SELECT partition_id FROM inbox_watermarks WHERE subscription_id = ?)";

const WATERMARKS: &str = "DELETE FROM inbox_watermarks WHERE subscription_id = ?";

const MARK: &str = "\
    UPDATE inbox_subscriptions SET removed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE id = ?";

fn delete_rows(sqlite: &mut SqliteConnection, subscription: i32) -> Result<u64, StoreError> {
    let deleted = sql_query(
        "DELETE FROM inbox_messages WHERE subscription_id = ?1 AND message_id IN \
         (SELECT message_id FROM inbox_messages WHERE subscription_id = ?1 LIMIT ?2)",
    )
    .bind::<Integer, _>(subscription)
    .bind::<BigInt, _>(BATCH)
    .execute(sqlite)?;
    Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
}
