//! The fence (P4), as a statement of its own: for what is seldom done.

use diesel::sql_types::{Array, Integer, Text, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::identity::PartitionId;
use crate::store::{Fence, Prepared, StoreError};

use super::PgConn;

#[derive(QueryableByName)]
struct Fenced {
    #[diesel(sql_type = Array<Integer>)]
    lost: Vec<i32>,
}

/// In the transaction that was begun: locks these partitions, sorted, in shared mode and answers with those
/// that have another epoch.
pub(super) async fn lost(conn: &PgConn, fences: &[Fence]) -> Result<Vec<PartitionId>, StoreError> {
    let partitions: Vec<i32> = fences.iter().map(|fence| fence.partition.0).collect();
    let epochs: Vec<Uuid> = fences.iter().map(|fence| fence.epoch.as_uuid()).collect();
    let query = sql_query("SELECT inbox.fence($1, $2, $3) AS lost")
        .bind::<Text, _>(conn.mark())
        .bind::<Array<Integer>, _>(partitions)
        .bind::<Array<SqlUuid>, _>(epochs);
    let Fenced { lost } = Prepared::of(query).get_result(&mut &conn.conn).await?;
    Ok(lost.into_iter().map(PartitionId).collect())
}
