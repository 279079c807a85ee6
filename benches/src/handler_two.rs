//! The library with a handler of two statements: read for update, then write.

use std::sync::Arc;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use inbox::{Definition, Handler, Message, Outcome, Postgres, Subscription, Tx};

use crate::Result;
use crate::cases::Finished;
use crate::env::Env;
use crate::library::{self, Progress};
use crate::statements::bench_accounts as accounts;
use crate::workload::Transfer;

struct ReadThenWrite {
    env: Arc<Env>,
    progress: Progress,
}

impl Subscription for ReadThenWrite {
    type Payload = Transfer;

    fn definition(&self) -> Definition<Transfer> {
        library::definition(&self.env, "bench.handler_two", &self.progress)
    }
}

impl Handler<Postgres> for ReadThenWrite {
    async fn handle(&self, transfer: &Message<Transfer>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        let (cents, n): (i64, i64) = accounts::table
            .find(transfer.account_id)
            .select((accounts::cents, accounts::n))
            .for_update()
            .get_result(tx)
            .await?;
        diesel::update(accounts::table.find(transfer.account_id))
            .set((accounts::cents.eq(cents + transfer.cents), accounts::n.eq(n + 1)))
            .execute(tx)
            .await?;
        self.progress.handled(1);
        Ok(())
    }
}

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    let progress = Progress::new();
    let handler = ReadThenWrite { env: Arc::clone(&env), progress: progress.clone() };
    library::consume_all(&env, "handler_two", progress, |inbox| inbox.handle(handler)).await
}
