//! The library at low load: one record received at a time, until its commit is known. The engine is
//! driven as the Kafka loop drives it, without Kafka in between, which the floor has not either.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use inbox::inbox::{End, Event, Events};
use inbox::store::Log;
use inbox::{
    Definition, Handler, Headers, Inbox, Message, Offset, Outcome, Partition, Place, Postgres, Record,
    Subscription, Topic, Tx,
};
use tokio::sync::mpsc::unbounded_channel;

use crate::Result;
use crate::cases::Finished;
use crate::env::Env;
use crate::library::{self, Progress};
use crate::report::Latency;
use crate::statements::bench_accounts as accounts;
use crate::workload::{Prefix, Transfer};

const MESSAGES: usize = 10_000;
const WARM_UP: usize = 200;

struct AddToAccount {
    env: Arc<Env>,
    progress: Progress,
}

impl Subscription for AddToAccount {
    type Payload = Transfer;

    fn definition(&self) -> Definition<Transfer> {
        library::definition(&self.env, "bench.one_at_a_time", &self.progress)
    }
}

impl Handler<Postgres> for AddToAccount {
    async fn handle(&self, transfer: &Message<Transfer>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        diesel::update(accounts::table.find(transfer.account_id))
            .set((accounts::cents.eq(accounts::cents + transfer.cents), accounts::n.eq(accounts::n + 1)))
            .execute(tx)
            .await?;
        Ok(())
    }
}

pub(crate) async fn run(env: Arc<Env>) -> Result<Finished> {
    let handler = AddToAccount { env: Arc::clone(&env), progress: Progress::new() };
    let (sender, mut events) = unbounded_channel();
    let events_to = Events::new(move |event| drop(sender.send(event)));
    let topic = Topic::new(env.topic.as_str());
    let settings = inbox::Settings { lanes: 1, ..inbox::Settings::default() };
    let inbox = Inbox::new(library::store(&env).await?).handle(handler).settings(settings);
    let engine = inbox.start("bench-one-at-a-time", Vec::new(), events_to).await?;
    let owner = Arc::new(
        engine.take_over(&topic, Partition(0), Offset(0), None, &Log::default(), Duration::MAX).await?,
    );

    let mut consumed = Prefix::default();
    let mut taken = Vec::new();
    let mut made = Vec::new();
    let started = Instant::now();
    for (offset, planned) in (0..).zip(env.workload.plan()) {
        if taken.len() == MESSAGES || started.elapsed() >= env.budget {
            break;
        }
        consumed[planned.partition as usize] += 1;
        let place = Place { topic: topic.clone(), partition: Partition(0), offset: Offset(offset) };
        let value = Some(planned.transfer.value()?.into());
        let record = Record::new(place, None, None, value, Headers::default());
        let received = Instant::now();
        engine.deliver(&owner, record, &mut made);
        let end = match events.recv().await {
            Some(Event::Ended(ended)) => ended.as_slice().first().map(inbox::inbox::Ended::end),
            other => return Err(format!("an end was expected, not {other:?}").into()),
        };
        match end {
            Some(End::Processed) => taken.push(received.elapsed()),
            Some(End::Duplicate) if planned.resend => {}
            other => return Err(format!("ended as {other:?}").into()),
        }
    }
    engine.stop(Duration::from_secs(10)).await;
    let counted: Vec<Duration> = taken.split_off(WARM_UP.min(taken.len() / 2));
    Ok(Finished { consumed, elapsed: started.elapsed(), latency: Some(Latency::of(counted)) })
}
