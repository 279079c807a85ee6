//! One connection: opened with TLS as the address says, discarded by cancelling first.

use std::future::Future as _;
use std::task::Poll;
use std::time::Duration;

use diesel::ConnectionError;
use diesel::connection::CacheSize;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::failure::{self, FailureClass};
use crate::store::{StoreError, TransactionLimits, once_there_is_room};
use crate::tx::{KeptStatements, PgInner};

use super::address::{Address, Keeping};
use super::pooler;
use super::tls::{self, Connector};

/// One connection to Postgres, owned by one lane or task.
pub struct PgConn {
    pub(super) conn: AsyncPgConnection,
    kept: KeptStatements,
    /// The transaction-local mark of the transaction that is open, if one is.
    mark: String,
    connector: Option<Connector>,
    keeping: Keeping,
}

impl PgConn {
    /// How long a discarded connection may take to be cancelled.
    const CANCEL_LIMIT: Duration = Duration::from_secs(2);

    pub(super) async fn open(address: &Address) -> Result<Self, StoreError> {
        let opened = async {
            let (connector, keeping) = (address.connector.clone(), address.keeping);
            let conn = match connector.clone() {
                None => {
                    let (client, connection) = address.config.connect(NoTls).await.map_err(refused)?;
                    begin_setup(&client, keeping).await;
                    AsyncPgConnection::try_from_client_and_connection(client, connection).await
                }
                Some(tls) => {
                    let (client, connection) = address.config.connect(tls).await.map_err(refused)?;
                    begin_setup(&client, keeping).await;
                    AsyncPgConnection::try_from_client_and_connection(client, connection).await
                }
            };
            let mut conn = conn.map_err(setup_failed)?;
            if keeping == Keeping::Transaction {
                (&conn).batch_execute("COMMIT").await?;
                conn.set_prepared_statement_cache_size(CacheSize::Disabled);
            }
            Ok(Self { conn, kept: KeptStatements::default(), mark: String::new(), connector, keeping })
        };
        // The driver's time-out covers the socket only, not a server that accepts and is silent.
        let limit = address.config.get_connect_timeout().copied().unwrap_or(Self::CANCEL_LIMIT) * 2;
        match tokio::time::timeout(limit, opened).await {
            Ok(opened) => opened,
            Err(_) => Err(StoreError::Connect(format!("no answer within {limit:?}"))),
        }
    }

    /// For what is done once, at a start.
    pub(super) async fn open_once(address: &Address) -> Result<Self, StoreError> {
        once_there_is_room(|| Self::open(address)).await
    }

    /// Ends what the backend is doing: closing the socket alone would leave it running in its wait,
    /// with its locks.
    ///
    /// Not through a pooler: requests to cancel make some of them crash (pgbouncer 1.18), and reach the
    /// wrong one's work in others. It closes the server's connection, and the backend looks for its client
    /// each half second.
    pub(super) async fn discard(self) {
        if self.keeping == Keeping::Transaction {
            return;
        }
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

    /// The text that begins a transaction and marks it as the one that its statements are sent for.
    /// Whatever the server's defaults are, it is READ COMMITTED, since the fence reads after its lock,
    /// and READ WRITE. What follows it sets all limits, but that of a statement holds from the next one
    /// on, and the wait for what follows may be longer than the server's default for idle transactions:
    /// these two are said here.
    pub(super) fn begin_sql(&mut self, [statement, _, idle]: &[String; 3]) -> String {
        if self.kept.overflowed() && self.keeping == Keeping::Connection {
            // The only way to empty the driver's cache is to switch it off and on.
            self.conn.set_prepared_statement_cache_size(CacheSize::Disabled);
            self.conn.set_prepared_statement_cache_size(CacheSize::Unbounded);
        }
        self.mark = Uuid::new_v4().simple().to_string();
        // Names are counted per process: what another one has left on this server connection would be
        // taken for ours.
        let forget = if self.keeping == Keeping::Transaction { "DEALLOCATE ALL; " } else { "" };
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {forget}SET LOCAL inbox.mark = '{}'; \
             SET LOCAL statement_timeout = {statement}; \
             SET LOCAL idle_in_transaction_session_timeout = {idle}",
            self.mark
        )
    }

    /// Begins a transaction and limits it.
    pub(super) async fn begin(&mut self, limits: &TransactionLimits) -> Result<(), StoreError> {
        let limits = limits_in_millis(limits);
        let begin = self.begin_sql(&limits);
        let [_, lock, _] = limits;
        // Not by the function that admission uses: the first migration begins before there is one.
        let sql = format!(
            "{begin}; \
             SET LOCAL synchronous_commit = on; \
             SET LOCAL client_connection_check_interval = 500; \
             SET LOCAL lock_timeout = {lock}",
        );
        Ok((&self.conn).batch_execute(&sql).await?)
    }
}

/// The driver prepares two statements on each new connection. Where statements are only kept in their
/// transaction they get one: it is sent before them, and what it answers shows in their answers.
async fn begin_setup(client: &Client, keeping: Keeping) {
    if keeping == Keeping::Transaction {
        let mut begin = std::pin::pin!(client.batch_execute("BEGIN; DEALLOCATE ALL"));
        // Polled once it is sent.
        std::future::poll_fn(|context| {
            let _ = begin.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
    }
}

/// A new server connection has nothing that these statements could fail on.
#[expect(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn setup_failed(error: ConnectionError) -> StoreError {
    match &error {
        ConnectionError::CouldntSetupConfiguration(cause)
            if failure::classify(cause) != FailureClass::Infrastructure =>
        {
            pooler::loses_statements(&cause.to_string())
        }
        _ => StoreError::connect(&error),
    }
}

/// Why there is no connection: a server that is full is up.
#[expect(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn refused(error: tokio_postgres::Error) -> StoreError {
    match (error.code(), StoreError::connect(&error), tls::advice(&error)) {
        (Some(&SqlState::TOO_MANY_CONNECTIONS), StoreError::Connect(reason), _) => StoreError::NoRoom(reason),
        (_, StoreError::Connect(reason), Some(advice)) => StoreError::Connect(format!("{reason}: {advice}")),
        (_, error, _) => error,
    }
}

/// Statement, lock and idle limit for Postgres's settings: at least 1, because 0 means no limit.
pub(super) fn limits_in_millis(limits: &TransactionLimits) -> [String; 3] {
    [limits.statement, limits.lock, limits.idle]
        .map(|limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1).to_string())
}
