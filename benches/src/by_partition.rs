//! By hand, as consumers are usually scaled: a task and a connection per partition, one transaction
//! per record.

use std::sync::Arc;

use diesel_async::AsyncPgConnection;

use crate::Result;
use crate::by_record::apply;
use crate::cases::Finished;
use crate::consumer::{self, Reader};
use crate::env::Env;

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    consumer::per_partition(&env, "by-partition", Some(env.budget), work).await
}

async fn work(mut reader: Reader, mut connection: AsyncPgConnection) -> Result<Reader> {
    while let Some(transfer) = reader.read(1).await?.pop() {
        apply(&mut connection, transfer).await?;
        reader.done()?;
    }
    Ok(reader)
}
