//! The floor for one message at a time: BEGIN, one prepared UPDATE, COMMIT on one connection, with
//! neither Kafka nor admission. What the library needs from record to commit is compared with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::QueryResult;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};

use crate::cases::Finished;
use crate::env::Env;
use crate::report::Latency;
use crate::statements::Add;
use crate::workload::{Prefix, Transfer};
use crate::{Result, database};

/// Enough for a p99 that rests on a hundred values.
const TRANSACTIONS: usize = 10_000;
/// The first ones prepare the statement and warm the caches; they are not counted.
const WARM_UP: usize = 200;

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    let mut connection = database::connect(&env).await?;
    let mut consumed = Prefix::default();
    let mut taken = Vec::new();
    let started = Instant::now();
    // The effects are those of the plan's first records, so that the oracle holds here too.
    for planned in env.workload.plan() {
        if taken.len() == TRANSACTIONS || started.elapsed() >= env.budget {
            break;
        }
        consumed[planned.partition as usize] += 1;
        if !planned.resend {
            taken.push(apply(&mut connection, planned.transfer).await?);
        }
    }
    let counted = taken.split_off(WARM_UP.min(taken.len() / 2));
    Ok(Finished { consumed, elapsed: started.elapsed(), latency: Some(Latency::of(counted)) })
}

async fn apply(connection: &mut AsyncPgConnection, transfer: Transfer) -> Result<Duration> {
    let effect = Add { account: transfer.account_id, cents: transfer.cents };
    let started = Instant::now();
    connection
        .transaction(async |connection| {
            effect.execute(connection).await?;
            QueryResult::Ok(())
        })
        .await?;
    Ok(started.elapsed())
}
