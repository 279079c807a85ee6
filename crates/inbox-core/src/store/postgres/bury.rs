//! Bury: (none) → dead, in a transaction of its own.

use crate::dead_letter::DeadLetter;
use crate::store::kept::by_id;
use crate::store::{StoreError, TransactionLimits, Written};

use super::PgConn;
use super::kept::write;

pub(super) async fn bury(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    letters: &[DeadLetter],
) -> Result<Written, StoreError> {
    write(conn, limits, &by_id(letters)).await
}
