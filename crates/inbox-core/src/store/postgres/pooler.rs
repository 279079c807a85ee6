//! Is there a pooler in between that gives each transaction another server connection, and leaves prepared
//! statements behind? Then a statement could run that another process has prepared under the same name.

use std::time::Duration;

use diesel::sql_types::Integer;
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl;

use crate::failure::FailureClass;
use crate::store::{Prepared, StoreError, TransactionLimits, within};

use super::PgConn;
use super::address::Address;
use super::commit::rollback;

/// How often a connection is made to change its server connection, if there is anything that changes it.
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(5);

#[derive(QueryableByName)]
struct Backend {
    #[diesel(sql_type = Integer)]
    pid: i32,
}

/// Fails if prepared statements do not follow their connection from transaction to transaction.
pub(super) async fn check(address: &Address) -> Result<(), StoreError> {
    let mut ours = PgConn::open_once(address).await?;
    let mut other = match PgConn::open(address).await {
        Ok(other) => other,
        // No room for a second one: nothing to compare with.
        Err(StoreError::NoRoom(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    // Both are closed without a cancel request, which makes pgbouncer 1.18 crash; nothing runs on them.
    within(LIMIT, follow(&mut ours, &mut other)).await
}

async fn follow(ours: &mut PgConn, other: &mut PgConn) -> Result<(), StoreError> {
    for _ in 0..ROUNDS {
        let before = backend(ours).await?;
        // It gets the server connection that was used last: ours, if there is a pool of them.
        other.begin(&TransactionLimits::OWN).await?;
        let now = backend(ours).await;
        rollback(other).await?;
        if now? != before {
            return Ok(());
        }
    }
    Ok(())
}

/// The server's process, asked by a statement that is prepared once.
async fn backend(conn: &mut PgConn) -> Result<i32, StoreError> {
    conn.begin(&TransactionLimits::OWN).await?;
    let query = Prepared::of(sql_query("SELECT pg_backend_pid() AS pid"));
    let answer: Result<Backend, _> = query.get_result(&mut &conn.conn).await;
    match answer.map_err(StoreError::from) {
        Ok(Backend { pid }) => {
            rollback(conn).await?;
            Ok(pid)
        }
        Err(StoreError::Statement { class, reason }) if class != FailureClass::Infrastructure => {
            Err(loses_statements(&reason))
        }
        Err(error) => Err(error),
    }
}

/// What it comes to, and what to do.
pub(super) fn loses_statements(reason: &str) -> StoreError {
    StoreError::Address(format!(
        "prepared statements are lost between transactions ({reason}): a pooler such as pgbouncer in transaction mode \
         is in between. Let it keep them (max_prepared_statements above 0, from pgbouncer 1.21 on), or write \
         prepared_statements=transaction into the address, which costs a round trip per statement, or connect to the \
         server itself"
    ))
}
