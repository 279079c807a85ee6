//! By hand, with an effect of two statements: as by-partition, but each record reads its account
//! under a lock and writes what it computed.

use std::sync::Arc;

use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};

use crate::Result;
use crate::cases::Finished;
use crate::consumer::{self, Reader};
use crate::env::Env;
use crate::statements::{Admit, SetBalance, bench_accounts};
use crate::workload::Transfer;

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    consumer::per_partition(&env, "by-partition-two", Some(env.budget), work).await
}

async fn work(mut reader: Reader, mut connection: AsyncPgConnection) -> Result<Reader> {
    while let Some(transfer) = reader.read(1).await?.pop() {
        apply(&mut connection, transfer).await?;
        reader.done()?;
    }
    Ok(reader)
}

async fn apply(connection: &mut AsyncPgConnection, transfer: Transfer) -> Result<()> {
    connection
        .transaction(async |connection| {
            if (Admit { id: transfer.id }).execute(connection).await? == 0 {
                return Ok(());
            }
            let (cents, count): (i64, i64) = bench_accounts::table
                .find(transfer.account_id)
                .select((bench_accounts::cents, bench_accounts::n))
                .for_update()
                .first(connection)
                .await?;
            let effect =
                SetBalance { account: transfer.account_id, cents: cents + transfer.cents, count: count + 1 };
            effect.execute(connection).await?;
            QueryResult::Ok(())
        })
        .await?;
    Ok(())
}
