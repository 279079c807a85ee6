//! Is the database up? Judged by a probe, never by an error's words (P6).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::BackoffBuilder as _;
use tokio::sync::Mutex;

use crate::store::{Database, StoreError, within};

use super::connections::Connections;
use super::events::{Event, Events};

/// The database's health as this process sees it.
pub(crate) struct Health<Db: Database> {
    connections: Arc<Connections<Db>>,
    events: Events,
    probe_cap: Duration,
    up: AtomicBool,
    /// One probe at a time: lanes that fail together ask together.
    probing: Mutex<()>,
}

impl<Db: Database> Health<Db> {
    /// A probe that takes longer found a database that is not up.
    const PROBE_LIMIT: Duration = Duration::from_secs(5);
    const FIRST_WAIT: Duration = Duration::from_millis(100);

    pub(super) fn new(connections: &Arc<Connections<Db>>, events: Events, probe_cap: Duration) -> Self {
        let connections = Arc::clone(connections);
        Self { connections, events, probe_cap, up: AtomicBool::new(true), probing: Mutex::new(()) }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    /// Something failed that may be the database's fault. `true`: it is healthy, look elsewhere.
    /// `false`: it is down, the transport was told, and a task probes until it is up again.
    pub(crate) async fn suspect(self: &Arc<Self>) -> bool {
        let _one = self.probing.lock().await;
        if !self.is_up() {
            return false;
        }
        let Err(error) = self.probe().await else { return true };
        tracing::error!(%error, "the database is down: partitions pause until it answers");
        self.up.store(false, Ordering::Release);
        self.events.send(Event::Outage);
        tokio::spawn(Arc::clone(self).recover());
        false
    }

    async fn recover(self: Arc<Self>) {
        let since = tokio::time::Instant::now();
        let waits = backon::ExponentialBuilder::new()
            .with_min_delay(Self::FIRST_WAIT)
            .with_max_delay(self.probe_cap)
            .with_jitter()
            .without_max_times()
            .build();
        for wait in waits {
            tokio::time::sleep(wait).await;
            match self.probe().await {
                Err(error) => tracing::debug!(%error, "the database is still down"),
                Ok(()) => break,
            }
        }
        let down = since.elapsed();
        tracing::info!(?down, "the database is up again: partitions begin anew");
        self.up.store(true, Ordering::Release);
        self.events.send(Event::Recovered);
    }

    async fn probe(&self) -> Result<(), StoreError> {
        within(Self::PROBE_LIMIT, self.connections.probe()).await
    }
}
