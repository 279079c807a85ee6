//! Park: (none) → open, in a transaction of its own.

use crate::store::kept::by_id;
use crate::store::{Park, StoreError, TransactionLimits, Written};

use super::SqliteConn;
use super::kept::write;

pub(super) async fn park(
    conn: &mut SqliteConn,
    limits: &TransactionLimits,
    messages: &[Park],
) -> Result<Written, StoreError> {
    let messages = messages.to_vec();
    conn.transaction(limits, move |sqlite| write(sqlite, &by_id(&messages))).await
}
