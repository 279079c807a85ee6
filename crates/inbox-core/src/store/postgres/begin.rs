//! BEGIN and the statement that follows it, in one round trip.

use diesel::pg::Pg;
use diesel::query_builder::{Query, QueryFragment, QueryId};
use diesel::sql_types::Untyped;
use diesel::{QueryResult, QueryableByName};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use futures_util::future::join;

use crate::store::Prepared;

/// Sends both without waiting in between. The statement must check the transaction's mark: if BEGIN fails
/// alone, it fails too, and cannot commit what it does by itself.
pub(super) async fn begin_with<Q, R>(
    conn: &AsyncPgConnection,
    begin: &str,
    statement: Q,
) -> QueryResult<Vec<R>>
where
    Q: Query<SqlType = Untyped> + QueryFragment<Pg> + QueryId + Send,
    R: QueryableByName<Pg> + Send + 'static,
{
    let (mut first, mut second) = (conn, conn);
    let (started, answers) =
        join(first.batch_execute(begin), Prepared::of(statement).load(&mut second)).await;
    started?;
    answers
}
