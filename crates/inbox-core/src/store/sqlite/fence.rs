//! The fence (P4): partitions whose epoch is another.
//!
//! It needs no locks of its own: it reads inside a transaction that holds the write lock, and a
//! take-over needs the same one.

use diesel::sql_types::{BigInt, Binary, Integer};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

use crate::identity::PartitionId;
use crate::store::{Fence, Prepared, StoreError};

#[derive(QueryableByName)]
struct Owned {
    #[diesel(sql_type = BigInt)]
    owned: i64,
}

pub(super) fn lost(sqlite: &mut SqliteConnection, fences: &[Fence]) -> Result<Vec<PartitionId>, StoreError> {
    let mut lost = Vec::new();
    for fence in fences {
        let query = sql_query("SELECT count(*) AS owned FROM inbox_partitions WHERE id = ? AND epoch = ?")
            .bind::<Integer, _>(fence.partition.0)
            .bind::<Binary, _>(fence.epoch.as_uuid().into_bytes());
        let Owned { owned } = Prepared::of(query).get_result(sqlite)?;
        if owned == 0 {
            lost.push(fence.partition);
        }
    }
    Ok(lost)
}
