//! One connection: opened with TLS as the address says, discarded by cancelling first.

use std::time::Duration;

use diesel::connection::CacheSize;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use tokio_postgres::NoTls;
use uuid::Uuid;

use crate::store::{StoreError, TransactionLimits};
use crate::tx::{KeptStatements, PgInner};

use super::address::Address;
use super::tls::Connector;

/// One connection to Postgres, owned by one lane or task.
pub struct PgConn {
    pub(super) conn: AsyncPgConnection,
    kept: KeptStatements,
    /// The transaction-local mark of the transaction that is open, if one is.
    mark: String,
    connector: Option<Connector>,
}

impl PgConn {
    /// How long a discarded connection may take to be cancelled.
    const CANCEL_LIMIT: Duration = Duration::from_secs(2);

    pub(super) async fn open(address: &Address) -> Result<Self, StoreError> {
        let opened = async {
            let connector = address.connector.clone();
            let conn = match connector.clone() {
                None => {
                    let (client, connection) =
                        address.config.connect(NoTls).await.map_err(|error| StoreError::connect(&error))?;
                    AsyncPgConnection::try_from_client_and_connection(client, connection).await
                }
                Some(tls) => {
                    let (client, connection) =
                        address.config.connect(tls).await.map_err(|error| StoreError::connect(&error))?;
                    AsyncPgConnection::try_from_client_and_connection(client, connection).await
                }
            };
            let conn = conn.map_err(|error| StoreError::connect(&error))?;
            Ok(Self { conn, kept: KeptStatements::default(), mark: String::new(), connector })
        };
        // The driver's time-out covers the socket only, not a server that accepts and is silent.
        let limit = address.config.get_connect_timeout().copied().unwrap_or(Self::CANCEL_LIMIT) * 2;
        match tokio::time::timeout(limit, opened).await {
            Ok(opened) => opened,
            Err(_) => Err(StoreError::Connect(format!("no answer within {limit:?}"))),
        }
    }

    /// Ends what the backend is doing: closing the socket alone would leave it running in its wait,
    /// with its locks.
    pub(super) async fn discard(self) {
        let cancel = self.conn.cancel_token();
        let cancelled = async {
            match self.connector.clone() {
                None => cancel.cancel_query(NoTls).await,
                Some(tls) => cancel.cancel_query(tls).await,
            }
        };
        // Nothing to do about a failure: the server's own limits end the transaction.
        let _ = tokio::time::timeout(Self::CANCEL_LIMIT, cancelled).await;
    }

    pub(super) fn inner(&self) -> PgInner<'_> {
        PgInner { conn: &self.conn, kept: &self.kept }
    }

    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// The text that begins a transaction and sets its limits and mark, all local to it: poolers
    /// hand the connection to others afterwards. Whatever the server's defaults are, it is READ
    /// COMMITTED (the fence reads after its lock), READ WRITE, and waits for its commit to be durable.
    pub(super) fn begin_sql(&mut self, limits: &TransactionLimits) -> String {
        if self.kept.overflowed() {
            // The only way to empty the driver's cache is to switch it off and on.
            self.conn.set_prepared_statement_cache_size(CacheSize::Disabled);
            self.conn.set_prepared_statement_cache_size(CacheSize::Unbounded);
        }
        self.mark = Uuid::new_v4().simple().to_string();
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
             SELECT set_config('inbox.mark', '{}', true), \
             set_config('synchronous_commit', 'on', true), \
             set_config('client_connection_check_interval', '2000', true), \
             set_config('statement_timeout', '{}', true), \
             set_config('lock_timeout', '{}', true), \
             set_config('idle_in_transaction_session_timeout', '{}', true)",
            self.mark,
            millis(limits.statement),
            millis(limits.lock),
            millis(limits.idle),
        )
    }

    pub(super) async fn begin(&mut self, limits: &TransactionLimits) -> Result<(), StoreError> {
        let sql = self.begin_sql(limits);
        Ok((&self.conn).batch_execute(&sql).await?)
    }
}

/// For Postgres's settings: at least 1, because 0 means no limit.
fn millis(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1)
}
