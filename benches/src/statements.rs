//! The SQL written by hand.
//!
//! Each statement has a static query id: diesel-async then prepares it once per connection. What
//! `diesel::update` and `sql_query` build has none, is prepared again at every call, and holds the
//! cache's lock meanwhile, which ends pipelining.

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use crate::workload::Transfer;

diesel::table! {
    /// What the effects are made on.
    bench_accounts (id) {
        id -> BigInt,
        cents -> BigInt,
        n -> BigInt,
    }
}

/// Admits one id; no row means that it has been here.
pub(crate) struct Admit {
    pub(crate) id: Uuid,
}

impl QueryFragment<Pg> for Admit {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("INSERT INTO bench_inbox (id) VALUES (");
        out.push_bind_param::<SqlUuid, _>(&self.id)?;
        out.push_sql(") ON CONFLICT DO NOTHING");
        Ok(())
    }
}

/// Admits many ids; those that are new come back.
struct AdmitMany {
    ids: Vec<Uuid>,
}

impl QueryFragment<Pg> for AdmitMany {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("INSERT INTO bench_inbox (id) SELECT id FROM unnest(");
        out.push_bind_param::<Array<SqlUuid>, _>(&self.ids)?;
        out.push_sql(") AS admitted (id) ON CONFLICT DO NOTHING RETURNING id");
        Ok(())
    }
}

impl Query for AdmitMany {
    type SqlType = SqlUuid;
}

/// The effect of one transfer.
pub(crate) struct Add {
    pub(crate) account: i64,
    pub(crate) cents: i64,
}

impl QueryFragment<Pg> for Add {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("UPDATE bench_accounts SET cents = cents + ");
        out.push_bind_param::<BigInt, _>(&self.cents)?;
        out.push_sql(", n = n + 1 WHERE id = ");
        out.push_bind_param::<BigInt, _>(&self.account)?;
        Ok(())
    }
}

/// The effects of many transfers, summed per account: of several matches for one row an update
/// would apply only one.
#[derive(Default)]
pub(crate) struct AddMany {
    pub(crate) accounts: Vec<i64>,
    pub(crate) cents: Vec<i64>,
    pub(crate) counts: Vec<i64>,
}

impl QueryFragment<Pg> for AddMany {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "UPDATE bench_accounts AS account \
             SET cents = account.cents + added.cents, n = account.n + added.n FROM unnest(",
        );
        out.push_bind_param::<Array<BigInt>, _>(&self.accounts)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<BigInt>, _>(&self.cents)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<BigInt>, _>(&self.counts)?;
        out.push_sql(") AS added (id, cents, n) WHERE account.id = added.id");
        Ok(())
    }
}

/// The second half of an effect that reads first.
pub(crate) struct SetBalance {
    pub(crate) account: i64,
    pub(crate) cents: i64,
    pub(crate) count: i64,
}

impl QueryFragment<Pg> for SetBalance {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("UPDATE bench_accounts SET cents = ");
        out.push_bind_param::<BigInt, _>(&self.cents)?;
        out.push_sql(", n = ");
        out.push_bind_param::<BigInt, _>(&self.count)?;
        out.push_sql(" WHERE id = ");
        out.push_bind_param::<BigInt, _>(&self.account)?;
        Ok(())
    }
}

macro_rules! prepared_once {
    ($($statement:ty),*) => {$(
        impl QueryId for $statement {
            type QueryId = Self;
            const HAS_STATIC_QUERY_ID: bool = true;
        }
    )*};
}

prepared_once!(Admit, AdmitMany, Add, AddMany, SetBalance);

/// Admits a batch and answers which of its transfers are new, in their order. Sorted, so that two
/// batches with common ids wait for each other instead of deadlocking.
pub(crate) async fn admit(
    connection: &mut AsyncPgConnection,
    batch: &[Transfer],
) -> QueryResult<Vec<Transfer>> {
    let mut ids: Vec<_> = batch.iter().map(|transfer| transfer.id).collect();
    ids.sort_unstable();
    let admitted: Vec<Uuid> = AdmitMany { ids }.load(connection).await?;
    let mut admitted: HashSet<_> = admitted.into_iter().collect();
    Ok(batch.iter().filter(|transfer| admitted.remove(&transfer.id)).copied().collect())
}
