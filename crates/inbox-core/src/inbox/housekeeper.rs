//! A connection for the inbox's own transactions, opened again after an error.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use crate::store::{Database, StoreError, within};

/// One connection, used by one task at a time.
pub(super) struct Housekeeper<Db: Database> {
    store: Db::Store,
    conn: Mutex<Option<Db::Conn>>,
}

impl<Db: Database> Housekeeper<Db> {
    /// No transaction of the inbox's own may take longer, whatever the server does.
    const LIMIT: Duration = Duration::from_secs(15);

    pub(super) fn new(store: Db::Store) -> Self {
        Self { store, conn: Mutex::new(None) }
    }

    /// Runs a transition. After an error, or when the caller gives up waiting, the connection is
    /// discarded.
    pub(super) async fn run<T, F>(&self, transition: F) -> Result<T, StoreError>
    where
        F: for<'c> FnOnce(&'c mut Db::Conn) -> BoxFuture<'c, Result<T, StoreError>>,
    {
        let mut slot = self.conn.lock().await;
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => Db::connect(&self.store).await?,
        };
        match within(Self::LIMIT, transition(&mut conn)).await {
            Ok(done) => {
                *slot = Some(conn);
                Ok(done)
            }
            Err(error) => {
                Db::discard(conn).await;
                Err(error)
            }
        }
    }
}
