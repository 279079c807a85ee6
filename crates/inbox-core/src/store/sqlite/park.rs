//! Park: (none) → open, in a transaction of its own.

use crate::store::kept::{by_id, fences_of};
use crate::store::{Park, Parked, StoreError, TransactionLimits};

use super::SqliteConn;
use super::fence::lost;
use super::kept::insert;

pub(super) async fn park(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    messages: &[Park],
) -> Result<Parked, StoreError> {
    let messages = messages.to_vec();
    conn.transaction(limits, move |sqlite| {
        let rows = by_id(&messages);
        let lost = lost(sqlite, &fences_of(&rows))?;
        if !lost.is_empty() {
            return Ok(Parked::Fenced(lost));
        }
        let mut duplicates = 0;
        for row in &rows {
            duplicates += usize::from(!insert(sqlite, row)?);
        }
        Ok(Parked::Done { duplicates })
    })
    .await
}
