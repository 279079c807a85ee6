//! Probe: a fresh connection, a row of ours written durably, and room for more.

use diesel::sql_query;
use diesel_async::RunQueryDsl;

use crate::store::{StoreError, TransactionLimits};

use super::PgConn;
use super::address::Address;
use super::commit::commit;

pub(super) async fn probe(address: &Address) -> Result<(), StoreError> {
    let mut conn = PgConn::open(address).await?;
    let result = probe_through(&mut conn).await;
    if result.is_err() {
        conn.discard().await;
    }
    result
}

pub(super) async fn probe_through(conn: &mut PgConn) -> Result<(), StoreError> {
    conn.begin(&TransactionLimits::OWN).await?;
    sql_query("SELECT inbox.probe_now()").execute(&mut &conn.conn).await?;
    commit(conn).await
}
