//! A Postgres database for each test.

use diesel::QueryResult;
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use inbox_core::store::{MigrationStatus, MoveError, Moved, OnUnfinished, RemoveError, Removed, StoreError};
use inbox_core::{Postgres, PostgresStore, Tx};
use tokio_postgres::{NoTls, SimpleQueryMessage};
use uuid::Uuid;

use crate::dialect::Dialect;

/// A database of its own on the server of the tests; dropped with everything in it.
#[derive(Debug)]
pub struct FreshDatabase {
    server: String,
    name: String,
}

impl FreshDatabase {
    /// Makes an empty database.
    pub async fn create() -> Self {
        let server = std::env::var("INBOX_TEST_DATABASE_URL").unwrap_or_else(|_| {
            panic!(
                "INBOX_TEST_DATABASE_URL is not set: run the tests with tests/run, or start the services with \
                 eval \"$(tests/services start)\""
            )
        });
        Self::create_at(&server).await
    }

    /// Makes an empty database on another server.
    pub async fn create_at(server: &str) -> Self {
        let name = format!("inbox_test_{}", Uuid::new_v4().simple());
        run(server, &format!("CREATE DATABASE {name}")).await;
        Self { server: server.to_owned(), name }
    }

    /// The same database on a server that has a copy of it.
    #[must_use]
    pub fn moved_to(mut self, server: &str) -> Self {
        server.clone_into(&mut self.server);
        self
    }

    /// The address of this database.
    #[must_use]
    pub fn url(&self) -> String {
        let (address, settings) = match self.server.split_once('?') {
            Some((address, settings)) => (address, format!("?{settings}")),
            None => (&*self.server, String::new()),
        };
        let (server, _) = address.rsplit_once('/').expect("an address ends with /database");
        format!("{server}/{}{settings}", self.name)
    }
}

impl Drop for FreshDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A thread of its own: this one may be about to unwind, or in the middle of a runtime.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(run(&server, &format!("DROP DATABASE {name} WITH (FORCE)")));
        });
        if dropped.join().is_err() {
            eprintln!("the database {} could not be dropped", self.name);
        }
    }
}

async fn run(url: &str, sql: &str) -> Vec<SimpleQueryMessage> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap_or_else(|error| {
        panic!("INBOX_TEST_DATABASE_URL leads to no database ({error}): run the tests with tests/run")
    });
    let connection = tokio::spawn(connection);
    let answer = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    drop(client);
    connection.await.expect("no panic").expect("the connection ends well");
    answer
}

impl Dialect for Postgres {
    type Fresh = FreshDatabase;

    const ABORTING: &str = "SELECT 1 / 0";

    async fn create() -> FreshDatabase {
        FreshDatabase::create().await
    }

    async fn store(fresh: &FreshDatabase) -> PostgresStore {
        PostgresStore::connect(&fresh.url()).await.expect("the database answers")
    }

    async fn migrate(store: &PostgresStore) -> Result<i32, StoreError> {
        store.migrate().await
    }

    async fn migrate_down(store: &PostgresStore, to: i32) -> Result<i32, StoreError> {
        store.migrate_down(to).await
    }

    async fn migration_status(store: &PostgresStore) -> Result<MigrationStatus, StoreError> {
        store.migration_status().await
    }

    async fn move_subscription(
        store: &PostgresStore,
        name: &str,
        from: &str,
        to: &str,
    ) -> Result<Moved, MoveError> {
        store.move_subscription(name, from, to).await
    }

    async fn remove_subscription(
        store: &PostgresStore,
        name: &str,
        group: &str,
        unfinished: OnUnfinished,
    ) -> Result<Removed, RemoveError> {
        store.remove_subscription(name, group, unfinished).await
    }

    async fn execute(fresh: &FreshDatabase, sql: &str) {
        run(&fresh.url(), sql).await;
    }

    async fn values(fresh: &FreshDatabase, sql: &str) -> Vec<Option<String>> {
        let rows = run(&fresh.url(), sql).await.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get("value").map(str::to_owned)),
            _ => None,
        });
        rows.collect()
    }

    fn table(name: &str) -> String {
        format!("inbox.{name}")
    }

    fn hex(column: &str) -> String {
        format!("encode({column}, 'hex')")
    }

    fn id_hex(column: &str) -> String {
        format!("replace(CAST({column} AS text), '-', '')")
    }

    fn tomorrow() -> &'static str {
        "now() + interval '1 day'"
    }

    fn millis(column: &str) -> String {
        format!("CAST(CAST(extract(epoch FROM {column}) * 1000 AS bigint) AS text)")
    }

    async fn send(tx: &mut Tx<'_, Self>, sql: &str) -> QueryResult<usize> {
        diesel::sql_query(sql).execute(tx).await
    }

    async fn send_batch(tx: &mut Tx<'_, Self>, sql: &str) -> QueryResult<()> {
        tx.batch_execute(sql).await
    }
}
