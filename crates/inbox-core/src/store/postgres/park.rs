//! Park: (none) → open, in a transaction of its own.

use crate::store::kept::by_id;
use crate::store::{Park, StoreError, TransactionLimits, Written};

use super::PgConn;
use super::kept::write;

pub(super) async fn park(
    conn: &mut PgConn,
    limits: &TransactionLimits,
    messages: &[Park],
) -> Result<Written, StoreError> {
    write(conn, limits, &by_id(messages)).await
}
