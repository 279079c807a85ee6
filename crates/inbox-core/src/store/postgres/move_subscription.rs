//! Move: the subscription's watermarks become those of the new group's partitions.

use diesel::sql_types::{Array, BigInt, Integer, Text, Uuid as SqlUuid};
use diesel::{OptionalExtension, QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::identity::{Partition, Topic};
use crate::store::move_subscription::{Step, check_groups, step};
use crate::store::{MoveError, Moved, StoreError};

use super::PgConn;
use super::address::Address;
use super::commit::commit;
use super::departure::{BATCH, Found, LIMITS, Refused, bounded, fence, find, give_up, in_batches};

#[derive(QueryableByName)]
struct Place {
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Integer)]
    partition: i32,
}

impl From<Refused> for MoveError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::InProgress => Self::InProgress,
            Refused::Busy(topic, partition) => Self::Busy { topic, partition },
            Refused::Store(error) => Self::Store(error),
        }
    }
}

pub(super) async fn move_subscription(
    address: &Address,
    name: &str,
    from: &str,
    to: &str,
) -> Result<Moved, MoveError> {
    check_groups(from, to)?;
    let mut conn = PgConn::open(address).await?;
    let (subscription, watermarks, rows) = match bounded(transaction(&mut conn, name, from, to)).await {
        Ok(done) => done,
        Err(error) => {
            give_up(conn).await;
            return Err(error);
        }
    };
    let rows = rows + repoint_receipts(conn, subscription, from, to).await?;
    Ok(Moved { watermarks, rows })
}

/// Answers with the subscription, and how many watermarks and unfinished rows went over.
async fn transaction(
    conn: &mut PgConn,
    name: &str,
    from: &str,
    to: &str,
) -> Result<(i32, u64, u64), MoveError> {
    conn.begin(&LIMITS).await?;
    let found = find(conn, name).await?;
    let todo = step(name, found.as_ref().map(|found| &*found.consumer_group), from, to)?;
    let Some(Found { id, .. }) = found else { unreachable!("what is not there has no step") };
    if todo == Step::Finish {
        commit(conn).await?;
        return Ok((id, 0, 0));
    }
    let partitions = fence(conn, id).await?;
    let pg = &mut &conn.conn;
    let other_log: Option<Place> = sql_query(OTHER_LOG)
        .bind::<Array<Integer>, _>(&partitions)
        .bind::<Text, _>(to)
        .get_result(pg)
        .await
        .optional()?;
    if let Some(Place { topic, partition }) = other_log {
        return Err(MoveError::OtherLog { topic: Topic::new(topic), partition: Partition(partition) });
    }
    // Rows that are there are only touched where they must be: their owner's flushes would wait.
    for sql in [PARTITIONS, LOGS, UNTOLD] {
        sql_query(sql).bind::<Array<Integer>, _>(&partitions).bind::<Text, _>(to).execute(pg).await?;
    }
    sql_query("UPDATE inbox.subscriptions SET consumer_group = $2 WHERE id = $1")
        .bind::<Integer, _>(id)
        .bind::<Text, _>(to)
        .execute(pg)
        .await?;
    let mut changed = [0, 0];
    for (changed, sql) in changed.iter_mut().zip([WATERMARKS, UNFINISHED]) {
        let rows = sql_query(sql)
            .bind::<Integer, _>(id)
            .bind::<Text, _>(to)
            .bind::<Array<Integer>, _>(&partitions)
            .execute(pg)
            .await?;
        *changed = u64::try_from(rows).unwrap_or(u64::MAX);
    }
    commit(conn).await?;
    let [watermarks, rows] = changed;
    Ok((id, watermarks, rows))
}

/// A subscription that is there already has watermarks for the log that is recorded there.
const OTHER_LOG: &str = "\
    SELECT f.topic, f.partition FROM inbox.partitions f \
    JOIN inbox.partitions t ON t.consumer_group = $2 AND t.topic = f.topic AND t.partition = f.partition \
    WHERE f.id = ANY ($1) AND EXISTS (SELECT FROM inbox.watermarks w WHERE w.partition_id = t.id) \
        AND (t.incarnation <> f.incarnation OR t.cluster <> f.cluster OR t.topic_id <> f.topic_id) \
    ORDER BY f.id LIMIT 1";

const PARTITIONS: &str = "\
    INSERT INTO inbox.partitions (consumer_group, topic, partition) \
    SELECT $2, f.topic, f.partition FROM inbox.partitions f WHERE f.id = ANY ($1) \
    ORDER BY f.topic, f.partition ON CONFLICT (consumer_group, topic, partition) DO NOTHING";

/// Where no subscription is, the log is the one that the moved watermarks mean, and so are the parts that
/// ids made of offsets have of it.
const LOGS: &str = "\
    UPDATE inbox.partitions t SET incarnation = f.incarnation, cluster = f.cluster, topic_id = f.topic_id, \
        last_offset = f.last_offset, last_time = f.last_time \
    FROM inbox.partitions f \
    WHERE f.id = ANY ($1) AND t.consumer_group = $2 AND t.topic = f.topic AND t.partition = f.partition \
        AND NOT EXISTS (SELECT FROM inbox.watermarks w WHERE w.partition_id = t.id)";

/// Where there is one, and the log was not told yet: if it turns out to be another one, it stops.
const UNTOLD: &str = "\
    UPDATE inbox.partitions t SET cluster = coalesce(t.cluster, f.cluster), topic_id = coalesce(t.topic_id, f.topic_id) \
    FROM inbox.partitions f \
    WHERE f.id = ANY ($1) AND t.consumer_group = $2 AND t.topic = f.topic AND t.partition = f.partition \
        AND ((t.cluster IS NULL AND f.cluster IS NOT NULL) OR (t.topic_id IS NULL AND f.topic_id IS NOT NULL))";

const WATERMARKS: &str = "\
    UPDATE inbox.watermarks w SET partition_id = t.id \
    FROM inbox.partitions f JOIN inbox.partitions t ON t.topic = f.topic AND t.partition = f.partition \
    WHERE w.subscription_id = $1 AND w.partition_id = f.id AND f.id = ANY ($3) AND t.consumer_group = $2";

/// Open rows are looked for by their partition, when it is taken over.
const UNFINISHED: &str = "\
    UPDATE inbox.messages m SET partition_id = t.id \
    FROM inbox.partitions f JOIN inbox.partitions t ON t.topic = f.topic AND t.partition = f.partition \
    WHERE m.subscription_id = $1 AND m.state <> 2 AND m.partition_id = f.id AND f.id = ANY ($3) \
        AND t.consumer_group = $2";

const RECEIPTS: &str = "\
    WITH batch AS MATERIALIZED ( \
        SELECT message_id, subscription_id FROM inbox.messages \
        WHERE (message_id, subscription_id) > ($2, $3) ORDER BY message_id, subscription_id LIMIT $4 \
    ), done AS ( \
        UPDATE inbox.messages m SET partition_id = t.id \
        FROM batch b, inbox.partitions f JOIN inbox.partitions t ON t.topic = f.topic AND t.partition = f.partition \
        WHERE b.subscription_id = $1 AND m.message_id = b.message_id AND m.subscription_id = b.subscription_id \
            AND m.partition_id = f.id AND f.consumer_group = $5 AND t.consumer_group = $6 \
        RETURNING 1 \
    ) \
    SELECT message_id, subscription_id, (SELECT count(*) FROM batch) AS seen, (SELECT count(*) FROM done) AS done \
    FROM batch ORDER BY message_id DESC, subscription_id DESC LIMIT 1";

async fn repoint_receipts(conn: PgConn, subscription: i32, from: &str, to: &str) -> Result<u64, StoreError> {
    in_batches(conn, |message, last_subscription| {
        sql_query(RECEIPTS)
            .bind::<Integer, _>(subscription)
            .bind::<SqlUuid, _>(message)
            .bind::<Integer, _>(last_subscription)
            .bind::<BigInt, _>(BATCH)
            .bind::<Text, _>(from.to_owned())
            .bind::<Text, _>(to.to_owned())
    })
    .await
}
