//! Bury: (none) → dead, in a transaction of its own.

use crate::dead_letter::DeadLetter;
use crate::store::kept::by_id;
use crate::store::{StoreError, TransactionLimits, Written};

use super::SqliteConn;
use super::kept::write;

pub(super) async fn bury(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    letters: &[DeadLetter],
) -> Result<Written, StoreError> {
    let letters = letters.to_vec();
    conn.transaction(limits, move |sqlite| write(sqlite, &by_id(&letters))).await
}
