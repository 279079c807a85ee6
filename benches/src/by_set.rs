//! By hand, the practical limit: batches as in by-batch, but their effects are one statement.

use std::collections::BTreeMap;
use std::sync::Arc;

use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};

use crate::Result;
use crate::by_batch::BATCH;
use crate::cases::Finished;
use crate::consumer::{self, Reader};
use crate::env::Env;
use crate::statements::{AddMany, admit};
use crate::workload::{Balance, Transfer};

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    consumer::per_partition(&env, "by-set", None, work).await
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
                sum(&fresh).execute(connection).await
            })
            .await?;
        reader.done()?;
    }
}

/// One row per account, in the order of accounts, so that two batches lock them in one order.
pub(crate) fn sum(fresh: &[Transfer]) -> AddMany {
    let mut sums: BTreeMap<i64, Balance> = BTreeMap::new();
    for transfer in fresh {
        let sum = sums.entry(transfer.account_id).or_default();
        sum.cents += transfer.cents;
        sum.count += 1;
    }
    let mut effect = AddMany::default();
    for (account, sum) in sums {
        effect.accounts.push(account);
        effect.cents.push(sum.cents);
        effect.counts.push(sum.count);
    }
    effect
}
