//! `Tx` over Postgres: itself a diesel-async connection, over a shared reference, so that the
//! handlers of a batch can send their statements without waiting for each other's answers.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use diesel::QueryResult;
use diesel::pg::{Pg, PgQueryBuilder};
use diesel::query_builder::{AsQuery, QueryBuilder, QueryFragment, QueryId};
use diesel_async::{AsyncConnectionCore, AsyncPgConnection, SimpleAsyncConnection};
use futures_util::future::{BoxFuture, Either, Ready, err};

use crate::failure::Failure;
use crate::store::postgres::{Postgres, Prepared};

use super::watch::Watched;
use super::guard::{Dialect, first_keyword_problem};
use super::{Savepoint, Tx};

/// What a Postgres `Tx` wraps: the connection, and which statements it has prepared.
#[derive(Clone, Copy)]
pub struct PgInner<'a> {
    pub(crate) conn: &'a AsyncPgConnection,
    pub(crate) kept: &'a KeptStatements,
}

/// The texts of the statements that handlers had prepared on a connection, as hashes: the cache of
/// the driver has no bound of its own, so the connection empties it between transactions when there
/// are too many.
#[derive(Debug, Default)]
pub(crate) struct KeptStatements(Mutex<HashSet<u64>>);

impl KeptStatements {
    /// How many distinct statements a connection keeps prepared.
    pub(crate) const MOST: usize = 256;

    fn keep(&self, sql: &str) {
        let mut hasher = DefaultHasher::new();
        sql.hash(&mut hasher);
        self.lock().insert(hasher.finish());
    }

    /// Whether it is time to empty the driver's cache; forgets them if so.
    pub(crate) fn overflowed(&self) -> bool {
        let mut kept = self.lock();
        let too_many = kept.len() > Self::MOST;
        if too_many {
            kept.clear();
        }
        too_many
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tx<'_, Postgres> {
    /// Counts and checks a statement before it is sent.
    fn pass<Q: QueryFragment<Pg>>(&self, query: &Q) -> QueryResult<()> {
        let mut builder = PgQueryBuilder::default();
        query.to_sql(&mut builder, &Pg)?;
        let sql = builder.finish();
        if let Some(problem) = first_keyword_problem(&sql, Dialect::Postgres) {
            return Err(self.watch.refuse(problem));
        }
        self.inner.kept.keep(&sql);
        self.watch.count(|| sql)
    }

    /// Marks a point to which the transaction can go back, for a statement whose error the handler
    /// wants to survive.
    ///
    /// ```ignore
    /// let savepoint = tx.savepoint().await?;
    /// match diesel::insert_into(seats::table).values(&seat).execute(tx).await {
    ///     Ok(_) => tx.release(savepoint).await?,
    ///     Err(DatabaseError(UniqueViolation, _)) => tx.rollback_to(savepoint).await?,
    ///     Err(error) => return Err(error.into()),
    /// }
    /// ```
    ///
    /// # Errors
    /// If the database refuses it, or where this batch may send only one statement per handler: it
    /// is then run again in another way.
    pub async fn savepoint(&mut self) -> Result<Savepoint, Failure> {
        // Two: the savepoint itself never is a handler's only statement.
        self.watch.count(|| "SAVEPOINT".into())?;
        let number = self.watch.statements();
        if number == 1 {
            self.watch.count(|| "SAVEPOINT".into())?;
        }
        let savepoint = Savepoint { number, errors_before: self.watch.has_seen_errors() };
        self.control(format!("SAVEPOINT inbox_{number}")).await?;
        Ok(savepoint)
    }

    /// Keeps what was done since the savepoint.
    ///
    /// # Errors
    /// If a statement since then failed: roll back to it instead.
    pub async fn release(&mut self, savepoint: Savepoint) -> Result<(), Failure> {
        self.control(format!("RELEASE SAVEPOINT inbox_{}", savepoint.number)).await
    }

    /// Undoes what was done since the savepoint, and forgets the errors seen since.
    ///
    /// # Errors
    /// If the database refuses it, for instance since the connection is lost.
    pub async fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Failure> {
        self.control(format!("ROLLBACK TO SAVEPOINT inbox_{}", savepoint.number)).await?;
        if !savepoint.errors_before {
            self.watch.forget_errors();
        }
        Ok(())
    }

    async fn control(&mut self, sql: String) -> Result<(), Failure> {
        let mut conn = self.inner.conn;
        conn.batch_execute(&sql).await.map_err(|error| {
            self.watch.failed(&error);
            error.into()
        })
    }
}

impl SimpleAsyncConnection for Tx<'_, Postgres> {
    /// Always refuses: several statements in one text could end the transaction unseen.
    async fn batch_execute(&mut self, _: &str) -> QueryResult<()> {
        Err(self.watch.refuse("a handler cannot use batch_execute: send each statement with diesel's execute".into()))
    }
}

type Sent<'a, T> = Either<Watched<BoxFuture<'a, QueryResult<T>>>, Ready<QueryResult<T>>>;
type Rows<'conn, 'query> = <&'conn AsyncPgConnection as AsyncConnectionCore>::Stream<'conn, 'query>;

/// Adds the watch to a row stream that a load answered with.
pub struct WatchedLoad<'a, S>(Sent<'a, S>);

impl<S> Future for WatchedLoad<'_, S> {
    type Output = QueryResult<Watched<S>>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let watch = match &self.0 {
            Either::Left(sent) => Some(Arc::clone(&sent.watch)),
            Either::Right(_) => None,
        };
        let rows = std::task::ready!(std::pin::Pin::new(&mut self.0).poll(cx));
        std::task::Poll::Ready(match (rows, watch) {
            (Ok(inner), Some(watch)) => Ok(Watched { inner, watch }),
            (Ok(_), None) => unreachable!("only errors are ready before they are sent"),
            (Err(error), _) => Err(error),
        })
    }
}

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
        WatchedLoad(match self.pass(&query) {
            Err(error) => Either::Right(err(error)),
            Ok(()) => {
                let mut conn: &'a AsyncPgConnection = self.inner.conn;
                let inner = AsyncConnectionCore::load(&mut conn, Prepared(query));
                Either::Left(Watched { inner, watch: Arc::clone(&self.watch) })
            }
        })
    }

    fn execute_returning_count<'conn, 'query, T>(&'conn mut self, source: T) -> Self::ExecuteFuture<'conn, 'query>
    where
        T: QueryFragment<Pg> + QueryId + 'query,
    {
        match self.pass(&source) {
            Err(error) => Either::Right(err(error)),
            Ok(()) => {
                let mut conn: &'a AsyncPgConnection = self.inner.conn;
                let inner = conn.execute_returning_count(Prepared(source));
                Either::Left(Watched { inner, watch: Arc::clone(&self.watch) })
            }
        }
    }
}
