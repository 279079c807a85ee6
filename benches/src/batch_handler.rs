//! The library with a batch handler: one set-based statement for all messages of a batch.

use std::sync::Arc;

use diesel_async::RunQueryDsl;
use inbox::{BatchHandler, Definition, Message, Outcome, Postgres, Subscription, Tx};

use crate::Result;
use crate::by_set::sum;
use crate::cases::Finished;
use crate::env::Env;
use crate::library::{self, Progress};
use crate::workload::Transfer;

struct AddToAccounts {
    env: Arc<Env>,
    progress: Progress,
}

impl Subscription for AddToAccounts {
    type Payload = Transfer;

    fn definition(&self) -> Definition<Transfer> {
        library::definition(&self.env, "bench.batch_handler", &self.progress)
    }
}

impl BatchHandler<Postgres> for AddToAccounts {
    async fn handle_batch(&self, transfers: &[&Message<Transfer>], tx: &mut Tx<'_, Postgres>) -> Outcome {
        // Aggregated per row first: UPDATE … FROM applies only one of several matches.
        let transfers: Vec<Transfer> = transfers.iter().map(|transfer| *transfer.payload()).collect();
        sum(&transfers).execute(tx).await?;
        self.progress.handled(transfers.len());
        Ok(())
    }
}

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    let progress = Progress::new();
    let handler = AddToAccounts { env: Arc::clone(&env), progress: progress.clone() };
    library::consume_all(&env, "batch_handler", progress, |inbox| inbox.handle_batch(handler)).await
}
