//! `Tx` over `SQLite`: itself a diesel-async connection, one statement at a time.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use diesel::QueryResult;
use diesel::query_builder::{AsQuery, QueryFragment, QueryId};
use diesel::sqlite::Sqlite as Backend;
use diesel_async::{AsyncConnectionCore, SimpleAsyncConnection};

use crate::store::Prepared;
use crate::store::sqlite::{Blocking, Sqlite};

use super::guard::Dialect;
use super::kept::KeptStatements;
use super::savepoint::Inner;
use super::sent::{Sent, WatchedLoad, pass, sent};
use super::watch::{Watch, Watched};
use super::{NO_BATCH_EXECUTE, Tx};

/// What an `SQLite` `Tx` wraps: the connection, and which statements it has prepared.
pub struct SqliteInner<'a> {
    pub(crate) conn: &'a mut Blocking,
    pub(crate) kept: &'a KeptStatements,
}

impl Inner for SqliteInner<'_> {
    async fn control(&mut self, sql: String) -> QueryResult<()> {
        self.conn.batch_execute(&sql).await
    }
}

impl Tx<'_, Sqlite> {
    /// After an error nothing more is sent: some errors end an `SQLite` transaction, and the next
    /// statement would commit by itself.
    fn pass<Q: QueryFragment<Backend>>(&self, query: &Q) -> QueryResult<String> {
        pass(query, &Backend, Dialect::Sqlite, self.inner.kept, &self.watch)
    }
}

impl SimpleAsyncConnection for Tx<'_, Sqlite> {
    /// Always refuses: several statements in one text could end the transaction unseen.
    async fn batch_execute(&mut self, _: &str) -> QueryResult<()> {
        Err(self.watch.refuse(NO_BATCH_EXECUTE.into()))
    }
}

/// A statement that has the connection to itself (`'conn`) and whose answer must be waited for.
///
/// It runs on another thread as soon as it is made, to its end. Dropped before that, nobody would
/// know of its error; so dropping it fails the attempt.
pub struct InTurn<'conn, F> {
    sent: F,
    watch: Arc<Watch>,
    ended: bool,
    conn: PhantomData<&'conn mut ()>,
}

impl<F> InTurn<'_, F> {
    fn new(sent: F, watch: &Arc<Watch>) -> Self {
        Self { sent, watch: Arc::clone(watch), ended: false, conn: PhantomData }
    }
}

impl<F: Future + Unpin> Future for InTurn<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let answer = ready!(Pin::new(&mut self.sent).poll(cx));
        self.ended = true;
        Poll::Ready(answer)
    }
}

impl<F> Drop for InTurn<'_, F> {
    fn drop(&mut self) {
        if !self.ended {
            let _ =
                self.watch.refuse("a statement was dropped before its answer came: await each one".into());
        }
    }
}

type Rows<'conn, 'query> = <Blocking as AsyncConnectionCore>::Stream<'conn, 'query>;

impl AsyncConnectionCore for Tx<'_, Sqlite> {
    type ExecuteFuture<'conn, 'query> = InTurn<'conn, Sent<'query, usize>>;
    type LoadFuture<'conn, 'query> = InTurn<'conn, WatchedLoad<'query, Rows<'conn, 'query>>>;
    type Stream<'conn, 'query> = Watched<Rows<'conn, 'query>>;
    type Row<'conn, 'query> = <Blocking as AsyncConnectionCore>::Row<'conn, 'query>;
    type Backend = Backend;

    fn load<'conn, 'query, T>(&'conn mut self, source: T) -> Self::LoadFuture<'conn, 'query>
    where
        T: AsQuery + 'query,
        T::Query: QueryFragment<Backend> + QueryId + 'query,
    {
        let query = source.as_query();
        let passed = self.pass(&query);
        let conn = &mut *self.inner.conn;
        let sent =
            sent(passed, &self.watch, |sql| AsyncConnectionCore::load(conn, Prepared::rendered(query, sql)));
        InTurn::new(WatchedLoad(sent), &self.watch)
    }

    fn execute_returning_count<'conn, 'query, T>(
        &'conn mut self,
        source: T,
    ) -> Self::ExecuteFuture<'conn, 'query>
    where
        T: QueryFragment<Backend> + QueryId + 'query,
    {
        let passed = self.pass(&source);
        let conn = &mut *self.inner.conn;
        let sent =
            sent(passed, &self.watch, |sql| conn.execute_returning_count(Prepared::rendered(source, sql)));
        InTurn::new(sent, &self.watch)
    }
}
