//! Remove: the subscription is fenced and marked, then its rows go.

use diesel::sql_types::{Array, BigInt, Integer, Text, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::identity::SubscriptionName;
use crate::store::remove::{check, check_unfinished};
use crate::store::{OnUnfinished, RemoveError, Removed, StoreError};

use super::PgConn;
use super::address::Address;
use super::commit::commit;
use super::departure::{BATCH, LIMITS, Refused, bounded, fence, find, give_up, in_batches};

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

impl From<Refused> for RemoveError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::InProgress => Self::InProgress,
            Refused::Busy(topic, partition) => Self::Busy { topic, partition },
            Refused::Store(error) => Self::Store(error),
        }
    }
}

pub(super) async fn remove(
    address: &Address,
    name: &str,
    group: &str,
    unfinished: OnUnfinished,
) -> Result<Removed, RemoveError> {
    let mut conn = PgConn::open(address).await?;
    let removed = match bounded(transaction(&mut conn, name, group, unfinished)).await {
        Ok(removed) => removed,
        Err(error) => {
            give_up(conn).await;
            return Err(error);
        }
    };
    Ok(Removed { rows: delete_rows(conn, removed).await? })
}

/// Answers with the numbers of all subscriptions of this name that are removed from this group, so that
/// what an earlier call did not come to is done too.
async fn transaction(
    conn: &mut PgConn,
    name: &str,
    group: &str,
    unfinished: OnUnfinished,
) -> Result<Vec<i32>, RemoveError> {
    conn.begin(&LIMITS).await?;
    let pg = &mut &conn.conn;
    if let Some(found) = find(conn, name).await? {
        check(name, &found.consumer_group, group)?;
        fence(conn, found.id).await?;
        let rows: Unfinished = sql_query(
            "SELECT count(*) FILTER (WHERE state = 0) AS open, count(*) FILTER (WHERE state = 1) AS dead \
             FROM inbox.messages WHERE subscription_id = $1 AND state <> 2",
        )
        .bind::<Integer, _>(found.id)
        .get_result(pg)
        .await?;
        check_unfinished(name, (rows.open, rows.dead), unfinished)?;
        sql_query("DELETE FROM inbox.watermarks WHERE subscription_id = $1")
            .bind::<Integer, _>(found.id)
            .execute(pg)
            .await?;
        sql_query("UPDATE inbox.subscriptions SET removed_at = now() WHERE id = $1")
            .bind::<Integer, _>(found.id)
            .execute(pg)
            .await?;
    }
    let removed: Vec<Number> = sql_query(
        "SELECT id FROM inbox.subscriptions WHERE name = $1 AND consumer_group = $2 AND removed_at IS NOT NULL",
    )
    .bind::<Text, _>(name)
    .bind::<Text, _>(group)
    .load(pg)
    .await?;
    if removed.is_empty() {
        return Err(RemoveError::Unknown { name: SubscriptionName::new(name) });
    }
    commit(conn).await?;
    Ok(removed.into_iter().map(|number| number.id).collect())
}

const ROWS: &str = "\
    WITH batch AS MATERIALIZED ( \
        SELECT message_id, subscription_id FROM inbox.messages \
        WHERE (message_id, subscription_id) > ($2, $3) ORDER BY message_id, subscription_id LIMIT $4 \
    ), done AS ( \
        DELETE FROM inbox.messages m USING batch b \
        WHERE b.subscription_id = ANY ($1) AND m.message_id = b.message_id AND m.subscription_id = b.subscription_id \
        RETURNING 1 \
    ) \
    SELECT message_id, subscription_id, (SELECT count(*) FROM batch) AS seen, (SELECT count(*) FROM done) AS done \
    FROM batch ORDER BY message_id DESC, subscription_id DESC LIMIT 1";

async fn delete_rows(conn: PgConn, removed: Vec<i32>) -> Result<u64, StoreError> {
    in_batches(conn, |message, last_subscription| {
        sql_query(ROWS)
            .bind::<Array<Integer>, _>(removed.clone())
            .bind::<SqlUuid, _>(message)
            .bind::<Integer, _>(last_subscription)
            .bind::<BigInt, _>(BATCH)
    })
    .await
}
