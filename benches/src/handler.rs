//! The library with a plain handler: one `diesel::update` per message.

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

pub(crate) struct AddToAccount {
    pub(crate) env: Arc<Env>,
    pub(crate) progress: Progress,
}

impl Subscription for AddToAccount {
    type Payload = Transfer;

    fn definition(&self) -> Definition<Transfer> {
        library::definition(&self.env, "bench.handler", &self.progress)
    }
}

impl Handler<Postgres> for AddToAccount {
    async fn handle(&self, transfer: &Message<Transfer>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        diesel::update(accounts::table.find(transfer.account_id))
            .set((accounts::cents.eq(accounts::cents + transfer.cents), accounts::n.eq(accounts::n + 1)))
            .execute(tx)
            .await?;
        self.progress.handled(1);
        Ok(())
    }
}

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    let progress = Progress::new();
    let handler = AddToAccount { env: Arc::clone(&env), progress: progress.clone() };
    library::consume_all(&env, "handler", progress, |inbox| inbox.handle(handler)).await
}
