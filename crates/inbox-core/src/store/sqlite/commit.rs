//! The proof that the transaction is alive, and COMMIT; or ROLLBACK.

use diesel::connection::SimpleConnection;

use crate::store::StoreError;

use super::SqliteConn;

/// Some errors roll a whole transaction back (a full disk, `ON CONFLICT ROLLBACK`), and what comes
/// next would begin and commit by itself. The savepoint made at admission has gone then, and its
/// release fails; in the same text, what fails stops the rest.
pub(super) async fn commit(conn: &mut SqliteConn) -> Result<(), StoreError> {
    end(conn, format!("RELEASE {}; COMMIT", conn.mark())).await
}

pub(super) async fn rollback(conn: &mut SqliteConn) -> Result<(), StoreError> {
    end(conn, "ROLLBACK".into()).await
}

/// After an error the turn stays with the connection until it is discarded: a transaction may be
/// open.
async fn end(conn: &mut SqliteConn, sql: String) -> Result<(), StoreError> {
    conn.run(move |sqlite| sqlite.batch_execute(&sql).map_err(StoreError::from)).await?;
    conn.end_turn();
    Ok(())
}
