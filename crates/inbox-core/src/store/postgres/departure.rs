//! What moving and removing a subscription have in common: its partitions are fenced, its rows follow in
//! batches.

use std::time::Duration;

use diesel::pg::Pg;
use diesel::query_builder::{Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel::{OptionalExtension, QueryableByName, sql_query};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use uuid::Uuid;

use crate::identity::{Partition, Topic};
use crate::store::{StoreError, TransactionLimits, within};

use super::PgConn;
use super::commit::{commit, rollback};

/// Nobody waits for these transactions as long as they wait: they keep admissions from their partitions.
pub(super) const LIMITS: TransactionLimits = TransactionLimits {
    statement: Duration::from_secs(8),
    lock: Duration::from_secs(3),
    idle: Duration::from_secs(5),
};

/// A batch of receipts keeps nobody from anything.
const BATCH_LIMITS: TransactionLimits =
    TransactionLimits { statement: Duration::from_mins(1), ..TransactionLimits::OWN };

/// Rows that one batch looks at.
pub(super) const BATCH: i64 = 10_000;

/// The subscription of a name, locked: nobody takes its partitions over meanwhile.
#[derive(QueryableByName)]
pub(super) struct Found {
    #[diesel(sql_type = Integer)]
    pub(super) id: i32,
    #[diesel(sql_type = Text)]
    pub(super) consumer_group: String,
}

/// Why its partitions were not fenced.
pub(super) enum Refused {
    InProgress,
    Busy(Topic, Partition),
    Store(StoreError),
}

impl From<diesel::result::Error> for Refused {
    fn from(error: diesel::result::Error) -> Self {
        Self::Store(error.into())
    }
}

#[derive(QueryableByName)]
struct Granted {
    #[diesel(sql_type = Bool)]
    granted: bool,
}

#[derive(QueryableByName)]
struct Place {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Integer)]
    partition: i32,
}

#[derive(QueryableByName)]
struct InTheWay {
    #[diesel(sql_type = Nullable<Integer>)]
    in_the_way: Option<i32>,
}

/// Finds the subscription. One such call at a time, since two of them could lock the same partitions in
/// different orders; the number is that of no partition.
pub(super) async fn find(conn: &PgConn, name: &str) -> Result<Option<Found>, Refused> {
    let pg = &mut &conn.conn;
    let Granted { granted } =
        sql_query("SELECT pg_try_advisory_xact_lock(1768841832, -1) AS granted").get_result(pg).await?;
    if !granted {
        return Err(Refused::InProgress);
    }
    let found = sql_query(
        "SELECT id, consumer_group FROM inbox.subscriptions \
         WHERE name = $1 AND removed_at IS NULL FOR UPDATE",
    )
    .bind::<Text, _>(name)
    .get_result(pg)
    .await
    .optional()?;
    Ok(found)
}

/// Shuts every owner of the subscription's partitions out, after their transactions have ended. Answers
/// with the partitions: where it has a watermark, or, between an acceptance and the next take-over, where
/// only its unfinished rows tell.
pub(super) async fn fence(conn: &PgConn, subscription: i32) -> Result<Vec<i32>, Refused> {
    let pg = &mut &conn.conn;
    let places: Vec<Place> = sql_query(
        "SELECT p.id, p.topic, p.partition FROM inbox.partitions p \
         WHERE EXISTS (SELECT FROM inbox.watermarks w WHERE w.subscription_id = $1 AND w.partition_id = p.id) \
             OR EXISTS (SELECT FROM inbox.messages m \
                        WHERE m.subscription_id = $1 AND m.partition_id = p.id AND m.state <> 2) \
         ORDER BY p.id",
    )
    .bind::<Integer, _>(subscription)
    .load(pg)
    .await?;
    let partitions: Vec<i32> = places.iter().map(|place| place.id).collect();
    let InTheWay { in_the_way } = sql_query("SELECT inbox.lock_partitions($1) AS in_the_way")
        .bind::<Array<Integer>, _>(&partitions)
        .get_result(pg)
        .await?;
    if let Some(place) = places.into_iter().find(|place| Some(place.id) == in_the_way) {
        return Err(Refused::Busy(Topic::new(place.topic), Partition(place.partition)));
    }
    // A flush holds the row and no lock of the inbox: it comes before this, or finds no epoch of its own.
    sql_query("UPDATE inbox.partitions SET epoch = NULL WHERE id = ANY ($1)")
        .bind::<Array<Integer>, _>(&partitions)
        .execute(pg)
        .await?;
    Ok(partitions)
}

/// What a batch did, and the last row it looked at.
#[derive(QueryableByName)]
struct Batch {
    #[diesel(sql_type = SqlUuid)]
    message_id: Uuid,
    #[diesel(sql_type = Integer)]
    subscription_id: i32,
    #[diesel(sql_type = BigInt)]
    seen: i64,
    #[diesel(sql_type = BigInt)]
    done: i64,
}

/// The transaction's result, or an error where the server does not answer (P5).
pub(super) async fn bounded<T, E: From<StoreError>>(
    transaction: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    // Longer than all of its own limits together.
    let limit = Duration::from_mins(1);
    match tokio::time::timeout(limit, transaction).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Connect(format!("no answer within {limit:?}")).into()),
    }
}

/// After an error: others need not wait for the server to notice that nobody is there any more.
pub(super) async fn give_up(mut conn: PgConn) {
    if !matches!(tokio::time::timeout(LIMITS.lock, rollback(&mut conn)).await, Ok(Ok(()))) {
        conn.discard().await;
    }
}

/// Goes through all rows in the order of their key, a transaction for each [`BATCH`] of them, and answers
/// with how many were changed. There is no index by subscription, which would cost each receipt its price.
pub(super) async fn in_batches<Q>(mut conn: PgConn, batch: impl Fn(Uuid, i32) -> Q) -> Result<u64, StoreError>
where
    Q: Query<SqlType = diesel::sql_types::Untyped> + QueryFragment<Pg> + QueryId + Send,
{
    let (mut message, mut subscription) = (Uuid::nil(), 0);
    let mut changed = 0;
    loop {
        let done =
            match within(BATCH_LIMITS.answer(), one_batch(&mut conn, batch(message, subscription))).await {
                Ok(done) => done,
                Err(error) => {
                    give_up(conn).await;
                    return Err(error);
                }
            };
        let Some(done) = done else { return Ok(changed) };
        changed += done.done.unsigned_abs();
        if done.seen < BATCH {
            return Ok(changed);
        }
        (message, subscription) = (done.message_id, done.subscription_id);
    }
}

async fn one_batch<Q>(conn: &mut PgConn, batch: Q) -> Result<Option<Batch>, StoreError>
where
    Q: Query<SqlType = diesel::sql_types::Untyped> + QueryFragment<Pg> + QueryId + Send,
{
    conn.begin(&BATCH_LIMITS).await?;
    // As in admission: a plan for a small table would read all of a large one.
    (&conn.conn).batch_execute("SET LOCAL enable_seqscan = off").await?;
    let done = batch.get_result(&mut &conn.conn).await.optional()?;
    commit(conn).await?;
    Ok(done)
}
