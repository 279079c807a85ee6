//! `Tx` over Postgres: itself a diesel-async connection, over a shared reference, so that the
//! handlers of a batch can send their statements without waiting for each other's answers.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AsQuery, QueryFragment, QueryId};
use diesel_async::{AsyncConnectionCore, AsyncPgConnection, SimpleAsyncConnection};

use crate::store::Prepared;
use crate::store::postgres::Postgres;

use super::guard::Dialect;
use super::kept::KeptStatements;
use super::savepoint::Inner;
use super::sent::{Sent, WatchedLoad, pass, sent};
use super::watch::Watched;
use super::{NO_BATCH_EXECUTE, Tx};

/// What a Postgres `Tx` wraps: the connection, and which statements it has prepared.
#[derive(Clone, Copy)]
pub struct PgInner<'a> {
    pub(crate) conn: &'a AsyncPgConnection,
    pub(crate) kept: &'a KeptStatements,
}

impl Tx<'_, Postgres> {
    fn pass<Q: QueryFragment<Pg>>(&self, query: &Q) -> QueryResult<String> {
        pass(query, &Pg, Dialect::Postgres, self.inner.kept, &self.watch)
    }
}

impl Inner for PgInner<'_> {
    async fn control(&mut self, sql: String) -> QueryResult<()> {
        let mut conn = self.conn;
        conn.batch_execute(&sql).await
    }
}

impl SimpleAsyncConnection for Tx<'_, Postgres> {
    /// Always refuses: several statements in one text could end the transaction unseen.
    async fn batch_execute(&mut self, _: &str) -> QueryResult<()> {
        Err(self.watch.refuse(NO_BATCH_EXECUTE.into()))
    }
}

type Rows<'conn, 'query> = <&'conn AsyncPgConnection as AsyncConnectionCore>::Stream<'conn, 'query>;

impl<'a> AsyncConnectionCore for Tx<'a, Postgres> {
    type ExecuteFuture<'conn, 'query> = Sent<'a, usize>;
    type LoadFuture<'conn, 'query> = WatchedLoad<'a, Rows<'conn, 'query>>;
    type Stream<'conn, 'query> = Watched<Rows<'conn, 'query>>;
    type Row<'conn, 'query> = <&'conn AsyncPgConnection as AsyncConnectionCore>::Row<'conn, 'query>;
    type Backend = Pg;

    fn load<'conn, 'query, T>(&'conn mut self, source: T) -> Self::LoadFuture<'conn, 'query>
    where
        T: AsQuery + 'query,
        T::Query: QueryFragment<Pg> + QueryId + 'query,
    {
        let query = source.as_query();
        let mut conn: &'a AsyncPgConnection = self.inner.conn;
        WatchedLoad(sent(self.pass(&query), &self.watch, |sql| {
            AsyncConnectionCore::load(&mut conn, Prepared::rendered(query, sql))
        }))
    }

    fn execute_returning_count<'conn, 'query, T>(
        &'conn mut self,
        source: T,
    ) -> Self::ExecuteFuture<'conn, 'query>
    where
        T: QueryFragment<Pg> + QueryId + 'query,
    {
        let mut conn: &'a AsyncPgConnection = self.inner.conn;
        sent(self.pass(&source), &self.watch, |sql| {
            conn.execute_returning_count(Prepared::rendered(source, sql))
        })
    }
}
