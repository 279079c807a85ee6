//! Statements on their way: watched, or refused before they were sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::query_builder::{QueryBuilder, QueryFragment};
use futures_util::future::{BoxFuture, Either, Ready, err};

use super::guard::{Dialect, first_keyword_problem};
use super::kept::KeptStatements;
use super::watch::{Watch, Watched};

/// Checks and counts a statement before it is sent; answers with its text.
pub(super) fn pass<DB, Q>(
    query: &Q,
    backend: &DB,
    dialect: Dialect,
    kept: &KeptStatements,
    watch: &Watch,
) -> QueryResult<String>
where
    DB: Backend,
    DB::QueryBuilder: Default,
    Q: QueryFragment<DB>,
{
    let mut builder = DB::QueryBuilder::default();
    query.to_sql(&mut builder, backend)?;
    let sql = builder.finish();
    if let Some(problem) = first_keyword_problem(&sql, dialect) {
        return Err(watch.refuse(problem));
    }
    watch.count(|| sql.clone())?;
    watch.given_up()?;
    kept.keep(&sql);
    Ok(sql)
}

/// A statement that was sent, or the error it was refused with.
pub(super) type Sent<'a, T> = Either<Watched<BoxFuture<'a, QueryResult<T>>>, Ready<QueryResult<T>>>;

/// Sends a statement unless it was refused.
pub(super) fn sent<'a, T>(
    passed: QueryResult<String>,
    watch: &Arc<Watch>,
    send: impl FnOnce(String) -> BoxFuture<'a, QueryResult<T>>,
) -> Sent<'a, T> {
    match passed {
        Ok(sql) => Either::Left(Watched { inner: send(sql), watch: Arc::clone(watch) }),
        Err(error) => Either::Right(err(error)),
    }
}

/// Adds the watch to the row stream that a load answers with.
pub struct WatchedLoad<'a, S>(pub(super) Sent<'a, S>);

impl<S> Future for WatchedLoad<'_, S> {
    type Output = QueryResult<Watched<S>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let watch = match &self.0 {
            Either::Left(sent) => Some(Arc::clone(&sent.watch)),
            Either::Right(_) => None,
        };
        let rows = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(match (rows, watch) {
            (Ok(inner), Some(watch)) => Ok(Watched { inner, watch }),
            (Ok(_), None) => unreachable!("only errors are ready before they are sent"),
            (Err(error), _) => Err(error),
        })
    }
}
