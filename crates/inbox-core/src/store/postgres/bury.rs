//! Bury: (none) → dead, in a transaction of its own.

use crate::dead_letter::DeadLetter;
use crate::store::kept::{by_id, fences_of};
use crate::store::{Buried, StoreError, TransactionLimits};

use super::PgConn;
use super::commit::{commit, rollback};
use super::fence::lost;
use super::kept::{insert, or_busy};

pub(super) async fn bury(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    letters: &[DeadLetter],
) -> Result<Buried, StoreError> {
    let rows = by_id(letters);
    conn.begin(limits).await?;
    let lost = lost(conn, &fences_of(&rows)).await?;
    if !lost.is_empty() {
        rollback(conn).await?;
        return Ok(Buried::Fenced(lost));
    }
    let inserted = match insert(conn, &rows).await {
        Ok(inserted) => inserted,
        Err(error) => return Err(or_busy(conn, limits, &rows, error).await),
    };
    commit(conn).await?;
    Ok(Buried::Done { duplicates: rows.len() - inserted })
}
