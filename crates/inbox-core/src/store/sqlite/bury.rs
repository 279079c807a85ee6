//! Bury: (none) → dead, in a transaction of its own.

use crate::dead_letter::DeadLetter;
use crate::store::kept::{by_id, fences_of};
use crate::store::{Buried, StoreError, TransactionLimits};

use super::SqliteConn;
use super::fence::lost;
use super::kept::insert;

pub(super) async fn bury(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    letters: &[DeadLetter],
) -> Result<Buried, StoreError> {
    let letters = letters.to_vec();
    conn.transaction(limits, move |sqlite| {
        let rows = by_id(&letters);
        let lost = lost(sqlite, &fences_of(&rows))?;
        if !lost.is_empty() {
            return Ok(Buried::Fenced(lost));
        }
        let mut duplicates = 0;
        for row in &rows {
            duplicates += usize::from(!insert(sqlite, row)?);
        }
        Ok(Buried::Done { duplicates })
    })
    .await
}
