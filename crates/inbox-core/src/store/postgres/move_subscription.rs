//! Move: the subscription's watermarks become those of the new group's partitions.

use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::store::move_subscription::{Pair, Step, check_groups, check_incarnations, step};
use crate::store::{MoveError, Moved, StoreError};

use super::PgConn;
use super::address::Address;
use super::commit::commit;
use super::departure::{BATCH, Found, LIMITS, Refused, bounded, fence, find, give_up, in_batches};

#[derive(QueryableByName)]
struct PairRow {
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Integer)]
    partition: i32,
    #[diesel(sql_type = Integer)]
    old: i32,
    #[diesel(sql_type = Nullable<Integer>)]
    new: Option<i32>,
    #[diesel(sql_type = Bool)]
    offsets_there: bool,
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
    let Some(Found { id, id_rule, .. }) = found else { unreachable!("what is not there has no step") };
    if todo == Step::Finish {
        commit(conn).await?;
        return Ok((id, 0, 0));
    }
    let partitions = fence(conn, id).await?;
    check_incarnations(&id_rule, &pairs(conn, &partitions, to).await?)?;
    let pg = &mut &conn.conn;
    // Rows that are there are only touched where they must be: their owner's flushes would wait.
    for sql in [PARTITIONS, INCARNATIONS] {
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

const PARTITIONS: &str = "\
    INSERT INTO inbox.partitions \
        (consumer_group, topic, partition, incarnation, cluster, topic_id, last_offset, last_time) \
    SELECT $2, f.topic, f.partition, f.incarnation, f.cluster, f.topic_id, f.last_offset, f.last_time \
    FROM inbox.partitions f WHERE f.id = ANY ($1) \
    ORDER BY f.topic, f.partition ON CONFLICT (consumer_group, topic, partition) DO NOTHING";

const INCARNATIONS: &str = "\
    UPDATE inbox.partitions t SET incarnation = f.incarnation FROM inbox.partitions f \
    WHERE f.id = ANY ($1) AND t.consumer_group = $2 AND t.topic = f.topic AND t.partition = f.partition \
        AND t.incarnation < f.incarnation";

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

async fn pairs(conn: &PgConn, partitions: &[i32], to: &str) -> Result<Vec<Pair>, StoreError> {
    let rows: Vec<PairRow> = sql_query(
        "SELECT f.topic, f.partition, f.incarnation AS old, t.incarnation AS new, \
             EXISTS (SELECT FROM inbox.watermarks w JOIN inbox.subscriptions s ON s.id = w.subscription_id \
                 WHERE w.partition_id = t.id \
                     AND (s.id_rule = 'offset' OR s.id_rule LIKE '%tombstone = offset)%')) AS offsets_there \
         FROM inbox.partitions f \
         LEFT JOIN inbox.partitions t ON t.consumer_group = $2 AND t.topic = f.topic AND t.partition = f.partition \
         WHERE f.id = ANY ($1) ORDER BY f.id",
    )
    .bind::<Array<Integer>, _>(partitions)
    .bind::<Text, _>(to)
    .load(&mut &conn.conn)
    .await?;
    let pair = |row: PairRow| Pair {
        topic: row.topic,
        partition: row.partition,
        old: row.old,
        new: row.new,
        offsets_there: row.offsets_there,
    };
    Ok(rows.into_iter().map(pair).collect())
}

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
