//! The connections of one process. Each lane and each housekeeper has its own; where the server has room for
//! fewer than they want, those there are go from hand to hand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::store::{Database, StoreError};

use super::seldom::Seldom;

type Resting<Db> = Arc<Mutex<Option<<Db as Database>::Conn>>>;

/// What all who want a connection share.
pub(crate) struct Connections<Db: Database> {
    store: Db::Store,
    /// The connection that each holder does not use at the moment.
    resting: Mutex<Vec<Resting<Db>>>,
    /// Who has none because the server has no room, in the order in which they asked.
    waiting: Mutex<VecDeque<oneshot::Sender<Db::Conn>>>,
    /// When the server said last that it has no room.
    full_since: Mutex<Option<Instant>>,
    full: Seldom,
    none: Seldom,
}

/// One who needs a connection now and then: a lane, a housekeeper.
pub(crate) struct Holder<Db: Database> {
    connections: Arc<Connections<Db>>,
    resting: Resting<Db>,
}

/// A connection without an open transaction.
pub(crate) struct Opened<Db: Database> {
    pub(crate) conn: Db::Conn,
    /// Whether it was used before: then it may turn out to be lost.
    pub(crate) used: bool,
}

impl<Db: Database> Connections<Db> {
    /// How long one try waits for a connection of another. Then the server is asked again.
    const WAIT: Duration = Duration::from_secs(1);
    /// How long a server that was full is not asked first.
    const REMEMBERED: Duration = Duration::from_secs(5);
    const BETWEEN_COMPLAINTS: Duration = Duration::from_mins(1);

    pub(super) fn new(store: Db::Store) -> Arc<Self> {
        Arc::new(Self {
            store,
            resting: Mutex::default(),
            waiting: Mutex::default(),
            full_since: Mutex::default(),
            full: Seldom::new(Self::BETWEEN_COMPLAINTS),
            none: Seldom::new(Duration::from_secs(5)),
        })
    }

    pub(crate) fn holder(self: &Arc<Self>) -> Holder<Db> {
        let resting = Resting::<Db>::default();
        lock(&self.resting).push(Arc::clone(&resting));
        Holder { connections: Arc::clone(self), resting }
    }

    /// A new one, or that of another if the server has no room.
    async fn open(&self) -> Result<Opened<Db>, StoreError> {
        // Where lanes take turns, each batch would cost a connection that is refused.
        if self.was_full()
            && let Some(conn) = self.one_of_another().await
        {
            return Ok(Opened { conn, used: true });
        }
        match Db::connect(&self.store).await {
            Ok(conn) => Ok(Opened { conn, used: false }),
            Err(StoreError::NoRoom(reason)) => {
                self.complain(&reason);
                let conn = self.one_of_another().await.ok_or(StoreError::NoRoom(reason))?;
                Ok(Opened { conn, used: true })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the database is up, through a fresh connection; through one that is there where the
    /// server has no room for another. It says so itself: that it is full is no outage.
    pub(super) async fn probe(&self) -> Result<(), StoreError> {
        loop {
            let full = match Db::probe(&self.store).await {
                Err(error @ StoreError::NoRoom(_)) => error,
                answer => return answer,
            };
            let Some(mut conn) = self.one_of_another().await else { return Err(full) };
            match Db::probe_through(&mut conn).await {
                Ok(()) => {
                    self.give(conn);
                    return Ok(());
                }
                Err(error) => {
                    self.discard(conn).await;
                    // It may have been lost long ago; now there is room for a fresh one.
                    if !error.is_lost() {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Ends one that is lost or in an unknown state: there is room for another.
    async fn discard(&self, conn: Db::Conn) {
        Db::discard(conn).await;
        *lock(&self.full_since) = None;
        lock(&self.waiting).clear();
    }

    async fn one_of_another(&self) -> Option<Db::Conn> {
        let (give, given) = oneshot::channel();
        // Before looking: what is laid to rest meanwhile comes by the channel.
        lock(&self.waiting).push_back(give);
        let rests = lock(&self.resting).iter().find_map(|resting| lock(resting).take());
        match rests {
            Some(conn) => Some(conn),
            None => tokio::time::timeout(Self::WAIT, given).await.ok()?.ok(),
        }
    }

    /// Hands it to who waits; gives it back if nobody does.
    fn give(&self, mut conn: Db::Conn) -> Option<Db::Conn> {
        let mut waiting = lock(&self.waiting);
        while let Some(next) = waiting.pop_front() {
            // Who does not wait any more does not take it.
            match next.send(conn) {
                Ok(()) => return None,
                Err(back) => conn = back,
            }
        }
        Some(conn)
    }

    fn was_full(&self) -> bool {
        lock(&self.full_since).is_some_and(|at| at.elapsed() < Self::REMEMBERED)
    }

    fn complain(&self, reason: &str) {
        *lock(&self.full_since) = Some(Instant::now());
        if self.full.is_time() {
            tracing::warn!(
                reason,
                wanted = lock(&self.resting).len(),
                "the database has no room for all connections of this process: they are shared, which is slower; raise \
                 the limit of connections, or lower Settings::lanes"
            );
        }
    }
}

impl<Db: Database> Holder<Db> {
    /// The own connection, if there is one and nobody has taken it meanwhile.
    pub(crate) fn take(&self) -> Option<Db::Conn> {
        lock(&self.resting).take()
    }

    /// A connection for one who has none.
    ///
    /// # Errors
    /// [`StoreError::NoRoom`] after a second, if the server has no room and nobody else has given one.
    pub(crate) async fn open(&self) -> Result<Opened<Db>, StoreError> {
        self.connections.open().await
    }

    /// A new connection before it is needed, if the server has room.
    pub(crate) async fn prepare(&self) {
        if let Ok(conn) = Db::connect(&self.connections.store).await {
            self.rest(conn);
        }
    }

    /// Ends a connection that is lost, or may have a transaction open.
    pub(crate) async fn discard(&self, conn: Db::Conn) {
        self.connections.discard(conn).await;
    }

    /// Tells that a healthy database gave no connection. It is tried again, so not each time.
    pub(crate) fn complain(&self, error: &StoreError) {
        if self.connections.none.is_time() {
            tracing::warn!(%error, "a lane has no connection");
        } else {
            tracing::debug!(%error, "a lane has no connection");
        }
    }

    /// Lays a connection without an open transaction aside. Who waits for one gets it.
    pub(crate) fn rest(&self, conn: Db::Conn) {
        if let Some(conn) = self.connections.give(conn) {
            *lock(&self.resting) = Some(conn);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
