//! The proof that the transaction is alive, and COMMIT; or ROLLBACK.

use diesel_async::SimpleAsyncConnection;

use crate::store::StoreError;

use super::PgConn;

/// One round trip for both: in the simple protocol a failed statement stops the rest of its text.
///
/// COMMIT alone proves nothing: that of an aborted transaction answers ROLLBACK, which the driver
/// does not tell, and that of a transaction which has ended already is only a warning.
pub(super) async fn commit(conn: &mut PgConn) -> Result<(), StoreError> {
    let sql = format!("SELECT inbox.prove('{}'); COMMIT", conn.mark());
    Ok((&conn.conn).batch_execute(&sql).await?)
}

pub(super) async fn rollback(conn: &mut PgConn) -> Result<(), StoreError> {
    Ok((&conn.conn).batch_execute("ROLLBACK").await?)
}
