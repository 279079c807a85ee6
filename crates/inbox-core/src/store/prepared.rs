//! Statements that are prepared once per connection.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::query_builder::{AstPass, Query, QueryBuilder, QueryFragment, QueryId};

/// A query that is prepared once per connection whatever its type says.
///
/// Diesel prepares updates, `sql_query` and multi-row inserts anew each time, because one type can
/// stand for many texts. The cache key of this wrapper is the text (it has no query id), and
/// for handlers' statements [`KeptStatements`](crate::tx::KeptStatements) bounds how many there are.
pub(crate) struct Prepared<Q> {
    query: Q,
    /// Its text, where it was rendered before.
    sql: Option<String>,
}

impl<Q> Prepared<Q> {
    pub(crate) fn of(query: Q) -> Self {
        Self { query, sql: None }
    }

    /// The same for a query whose text is known already.
    pub(crate) fn rendered(query: Q, sql: String) -> Self {
        Self { query, sql: Some(sql) }
    }
}

impl<Q> QueryId for Prepared<Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<DB: Backend, Q: QueryFragment<DB>> QueryFragment<DB> for Prepared<Q> {
    fn walk_ast<'b>(&'b self, pass: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        self.query.walk_ast(pass)
    }

    fn to_sql(&self, out: &mut DB::QueryBuilder, backend: &DB) -> QueryResult<()> {
        match &self.sql {
            None => self.query.to_sql(out, backend),
            Some(sql) => {
                out.push_sql(sql);
                Ok(())
            }
        }
    }

    fn is_safe_to_cache_prepared(&self, _: &DB) -> QueryResult<bool> {
        Ok(true)
    }
}

impl<Q: Query> Query for Prepared<Q> {
    type SqlType = Q::SqlType;
}

/// For the blocking connection of `SQLite`.
#[cfg(feature = "sqlite")]
impl<Q, Conn> diesel::RunQueryDsl<Conn> for Prepared<Q> {}
