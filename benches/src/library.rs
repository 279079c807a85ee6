//! What the cases that use the library share: a fresh schema, and waiting until every effect of the
//! topic is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use inbox::kafka::{KafkaConfig, consume};
use inbox::{Definition, IdRule, Inbox, Json, KeyRule, Postgres, PostgresStore};
use tokio::sync::oneshot;

use crate::cases::Finished;
use crate::consumer::{Stopwatch, group};
use crate::env::Env;
use crate::workload::Transfer;
use crate::{Result, database};

/// What a handler of the bench tells: that a record arrived, and that a message was handled.
#[derive(Clone)]
pub(crate) struct Progress {
    pub(crate) stopwatch: Stopwatch,
    handled: Arc<AtomicU32>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { stopwatch: Stopwatch::new(None), handled: Arc::default() }
    }

    pub(crate) fn handled(&self, messages: usize) {
        self.handled.fetch_add(u32::try_from(messages).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}

/// The subscription of every case: what `#[derive(Subscription)]` would write, and a look at each
/// record for the stopwatch.
pub(crate) fn definition(env: &Env, name: &str, progress: &Progress) -> Definition<Transfer> {
    let stopwatch = progress.stopwatch.clone();
    Definition::new(name, Json)
        .topic(env.topic.as_str())
        .id(IdRule::payload("id", |transfer: &Transfer| &transfer.id))
        .key(KeyRule::payload("account_id", |transfer: &Transfer| &transfer.account_id))
        .filter(move |_| {
            stopwatch.received();
            true
        })
}

/// The inbox's schema as a new service finds it.
pub(crate) async fn store(env: &Env) -> Result<PostgresStore> {
    let mut connection = database::connect(env).await?;
    connection.batch_execute("DROP SCHEMA IF EXISTS inbox CASCADE").await?;
    let store = PostgresStore::connect(&env.database_url).await?;
    store.migrate().await?;
    Ok(store)
}

/// Consumes the whole topic with the library, as a service would.
pub(crate) async fn consume_all(
    env: &Env,
    case: &str,
    progress: Progress,
    handlers: impl FnOnce(Inbox<Postgres>) -> Inbox<Postgres>,
) -> Result<Finished> {
    let inbox = handlers(Inbox::new(store(env).await?));
    let (stop, stopped) = oneshot::channel::<()>();
    let consuming = consume(KafkaConfig::new(&env.brokers, group(env, case)), inbox)
        .with_graceful_shutdown(async { drop(stopped.await) });
    let consuming = tokio::spawn(consuming.into_future());

    let expected = env.workload.plan().filter(|planned| !planned.resend).count();
    let mut connection = database::connect(env).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if consuming.is_finished() {
            break;
        }
        // The sum over all accounts costs the server a little: not before it can be the right one.
        let handled = AtomicU32::load(&progress.handled, Ordering::Relaxed);
        if usize::try_from(handled)? >= expected
            && effects(&mut connection).await? >= i64::try_from(expected)?
        {
            break;
        }
    }
    let elapsed = progress.stopwatch.elapsed();
    drop(stop);
    consuming.await??;
    Ok(Finished { consumed: env.workload.whole(), elapsed, latency: None })
}

pub(crate) async fn effects(connection: &mut AsyncPgConnection) -> Result<i64> {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = BigInt)]
        n: i64,
    }
    let row: Row =
        diesel::sql_query("SELECT sum(n)::bigint AS n FROM bench_accounts").get_result(connection).await?;
    Ok(row.n)
}
