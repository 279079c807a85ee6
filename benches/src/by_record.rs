//! By hand, the plainest: one consumer, one connection, one transaction per record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use rdkafka::consumer::Consumer;
use rdkafka::message::Message;

use crate::cases::Finished;
use crate::consumer::{self, Stopwatch};
use crate::env::Env;
use crate::statements::{Add, Admit};
use crate::workload::{Prefix, Transfer};
use crate::{Result, database};

const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    let mut connection = database::connect(&env).await?;
    let consumer = consumer::consumer(&env, "by-record")?;
    consumer.subscribe(&[&env.topic])?;

    let stopwatch = Stopwatch::new(Some(env.budget));
    let end = env.workload.whole();
    let mut reached = Prefix::default();
    let mut last = Instant::now();
    while reached != end && !stopwatch.is_over() {
        let Some(record) = consumer.poll(Duration::ZERO) else {
            if last.elapsed() > PATIENCE {
                return Err("the consumer came to a stop".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let record = record?;
        stopwatch.received();
        last = Instant::now();
        let transfer = Transfer::parse(record.payload())?;
        apply(&mut connection, transfer).await?;
        consumer.store_offset_from_message(&record)?;
        reached[usize::try_from(record.partition())?] += 1;
    }
    let elapsed = stopwatch.elapsed();
    consumer::commit(&consumer, &env.topic, &reached)?;
    Ok(Finished { consumed: reached, elapsed, latency: None })
}

/// Admission and effect in one transaction.
pub(crate) async fn apply(connection: &mut AsyncPgConnection, transfer: Transfer) -> Result<()> {
    connection
        .transaction(async |connection| {
            if (Admit { id: transfer.id }).execute(connection).await? == 1 {
                let effect = Add { account: transfer.account_id, cents: transfer.cents };
                effect.execute(connection).await?;
            }
            diesel::QueryResult::Ok(())
        })
        .await?;
    Ok(())
}
