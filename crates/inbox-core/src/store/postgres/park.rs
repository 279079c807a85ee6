//! Park: (none) → open, in a transaction of its own.

use crate::store::kept::{by_id, fences_of};
use crate::store::{Park, Parked, StoreError, TransactionLimits};

use super::PgConn;
use super::commit::{commit, rollback};
use super::fence::lost;
use super::kept::{insert, or_busy};

pub(super) async fn park(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    messages: &[Park],
) -> Result<Parked, StoreError> {
    let rows = by_id(messages);
    conn.begin(limits).await?;
    let lost = lost(conn, &fences_of(&rows)).await?;
    if !lost.is_empty() {
        rollback(conn).await?;
        return Ok(Parked::Fenced(lost));
    }
    let inserted = match insert(conn, &rows).await {
        Ok(inserted) => inserted,
        Err(error) => return Err(or_busy(conn, limits, &rows, error).await),
    };
    commit(conn).await?;
    Ok(Parked::Done { duplicates: rows.len() - inserted })
}
