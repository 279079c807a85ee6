//! A replica of a test's own Postgres: it streams until it is cut off, and becomes a primary when it is
//! promoted.

use tokio_postgres::Client;

use crate::oracle::connect;
use crate::own_services::OwnServices;
use crate::wait;

/// A second server, with a copy of the first one's databases.
pub struct Replica {
    /// Its address.
    pub url: String,
    client: Client,
}

impl Replica {
    /// Copies the server and lets the copy follow it, asynchronously as Postgres does by default.
    pub async fn of(services: &OwnServices) -> Self {
        let url = services.ask("replica-start");
        let client = connect(&url).await;
        let replica = Self { url, client };
        wait::until("it streams", async || {
            replica.number("SELECT count(*) FROM pg_stat_wal_receiver").await == 1
        })
        .await;
        replica
    }

    /// Ends the stream: what the primary commits from now on is not here.
    pub async fn cut_off(&self) {
        // Each a transaction of its own: the first refuses to be in one.
        for sql in ["ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"] {
            self.client.batch_execute(sql).await.expect("the replica answers");
        }
        wait::until("the stream ends", async || {
            self.number("SELECT count(*) FROM pg_stat_wal_receiver").await == 0
        })
        .await;
    }

    /// Makes it a primary, on the next timeline, with what it has.
    pub async fn promote(&self) {
        self.client.batch_execute("SELECT pg_promote(true, 60)").await.expect("it is promoted");
        wait::until("it takes writes", async || {
            self.number("SELECT count(*) WHERE pg_is_in_recovery()").await == 0
        })
        .await;
    }

    async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.expect("the replica answers").get(0)
    }
}
