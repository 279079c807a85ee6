//! By hand, for speed: per partition up to 500 records in one transaction, admitted by one
//! statement, each effect a prepared update of its own, sent without waiting for the one before.

use std::sync::Arc;

use diesel::QueryResult;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use futures_util::future::try_join_all;

use crate::Result;
use crate::cases::Finished;
use crate::consumer::{self, Reader};
use crate::env::Env;
use crate::statements::{Add, admit};
use crate::workload::Transfer;

/// Larger ones gained nothing where each record has an update of its own.
pub(crate) const BATCH: u32 = 500;

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    consumer::per_partition(&env, "by-batch", None, work).await
}

async fn work(mut reader: Reader, mut connection: AsyncPgConnection) -> Result<Reader> {
    loop {
        let batch = reader.read(BATCH).await?;
        if batch.is_empty() {
            return Ok(reader);
        }
        connection
            .transaction(async |connection| {
                let fresh = admit(connection, &batch).await?;
                apply(connection, &fresh).await
            })
            .await?;
        reader.done()?;
    }
}

async fn apply(connection: &AsyncPgConnection, fresh: &[Transfer]) -> QueryResult<()> {
    let updates = fresh.iter().map(|transfer| {
        let effect = Add { account: transfer.account_id, cents: transfer.cents };
        // A shared reference is a connection too: what is sent on it is pipelined.
        let mut shared = connection;
        effect.execute(&mut shared)
    });
    try_join_all(updates).await?;
    Ok(())
}
