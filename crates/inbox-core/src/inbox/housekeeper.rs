//! A connection for the inbox's own transactions, opened again after an error.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use crate::store::{Database, StoreError, within};

use super::connections::{Connections, Holder};

/// One connection, used by one task at a time.
pub(super) struct Housekeeper<Db: Database> {
    holder: Holder<Db>,
    turn: Mutex<()>,
}

impl<Db: Database> Housekeeper<Db> {
    /// No transaction of the inbox's own may take longer, whatever the server does.
    const LIMIT: Duration = Duration::from_secs(15);

    pub(super) fn new(connections: &Arc<Connections<Db>>) -> Self {
        Self { holder: connections.holder(), turn: Mutex::new(()) }
    }

    /// Runs a transition. After an error, or when the caller gives up waiting, the connection is
    /// discarded.
    pub(super) async fn run<T, F>(&self, transition: F) -> Result<T, StoreError>
    where
        F: for<'c> FnOnce(&'c mut Db::Conn) -> BoxFuture<'c, Result<T, StoreError>>,
    {
        let _turn = self.turn.lock().await;
        let mut conn = match self.holder.take() {
            Some(conn) => conn,
            None => self.holder.open().await?.conn,
        };
        match within(Self::LIMIT, transition(&mut conn)).await {
            Ok(done) => {
                self.holder.rest(conn);
                Ok(done)
            }
            Err(error) => {
                self.holder.discard(conn).await;
                Err(error)
            }
        }
    }
}
