//! Raising a partition's epoch and loading its state, however long that takes.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use inbox_core::inbox::{Engine, Owner, TakeOverError};
use inbox_core::{Database, Offset, Topic};
use rdkafka::consumer::BaseConsumer;
use tokio::task::spawn_blocking;

use crate::context::{Context, Place};
use crate::error::Error;
use crate::preflight::{committed_number, log_range};

use super::wake::{Wake, Wakes};

/// Between two tries.
const WAIT: Duration = Duration::from_millis(200);

/// Claims until it has the partition; ends early when nobody listens any more. A claim that was
/// overtaken by a revoke raises an epoch for nothing, which harms nobody: the next owner raises it
/// again.
pub(super) async fn claim<Db: Database>(
    engine: Arc<Engine<Db>>,
    consumer: std::sync::Weak<BaseConsumer<Context>>,
    wakes: Wakes,
    place: Place,
    claim: u64,
) {
    let result = loop {
        if engine.is_up() {
            let Some(consumer) = consumer.upgrade() else { return };
            match try_claim(&engine, consumer, &place).await {
                Ok(Some(owner)) => break Ok(owner),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
        }
        if consumer.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(WAIT).await;
    };
    wakes.send(Wake::Claimed { place, claim, result });
}

async fn try_claim<Db: Database>(
    engine: &Arc<Engine<Db>>,
    consumer: Arc<BaseConsumer<Context>>,
    place: &Place,
) -> Result<Option<Owner>, Error> {
    let Some((low, _)) = ask(&consumer, place, log_range).await else { return Ok(None) };
    let (topic, partition) = place;
    // Before the take-over: what the database has afterwards is at least as young, unless it went back.
    let Some(committed) = ask(&consumer, place, committed_number).await else { return Ok(None) };
    let owner = match engine.take_over(topic, *partition, Offset(low), committed).await {
        Ok(owner) => owner,
        Err(TakeOverError::Store(_)) => return Ok(None),
        Err(TakeOverError::Unregistered(error)) => return Err(Error::Store(error)),
        Err(TakeOverError::WentBack { number, committed }) => {
            let (topic, partition) = place.clone();
            return Err(Error::DatabaseWentBack { topic, partition, number, committed });
        }
    };
    // Asked again, since the previous owner may have gone on until the take-over.
    let Some((low, high)) = ask(&consumer, place, log_range).await else { return Ok(None) };
    let watermark = owner.start();
    if watermark < Offset(low) || watermark > Offset(high) {
        return Err(Error::OutsideLog {
            topic: topic.clone(),
            partition: *partition,
            low: Offset(low),
            high: Offset(high),
            watermark,
        });
    }
    Ok(Some(owner))
}

/// What Kafka says of the partition; nothing if it does not answer, which is told.
async fn ask<T, E>(
    consumer: &Arc<BaseConsumer<Context>>,
    (topic, partition): &Place,
    question: fn(&BaseConsumer<Context>, &Topic, i32) -> Result<T, E>,
) -> Option<T>
where
    T: Send + 'static,
    E: Display + Send + 'static,
{
    let (consumer, asked, number) = (Arc::clone(consumer), topic.clone(), partition.0);
    let answer = spawn_blocking(move || question(&consumer, &asked, number)).await.ok()?;
    answer
        .map_err(|error| tracing::warn!(%topic, %partition, %error, "Kafka does not tell what it has of a partition"))
        .ok()
}
