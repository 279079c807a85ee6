//! Raising a partition's epoch and loading its state, however long that takes.

use std::fmt::Display;
use std::sync::{Arc, Weak};
use std::time::Duration;

use inbox_core::inbox::{Engine, Owner, TakeOverError};
use inbox_core::store::{LastRecord, OtherLog};
use inbox_core::{Database, Offset, Topic};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use tokio::task::spawn_blocking;

use crate::context::{Context, Place};
use crate::error::Error;
use crate::preflight::{committed_number, log_range, which_log};
use crate::stopped::StopReason;

use super::wake::{Wake, Wakes};

/// A partition that is this process's own.
pub(crate) struct Claim {
    pub(super) owner: Owner,
    /// The last finished record, if Kafka may still have it: the log is looked at there.
    pub(super) recognise: Option<LastRecord>,
}

/// Why a partition is not consumed.
pub(crate) enum Refusal {
    /// It waits for a person.
    Stop { incarnation: i32, reason: StopReason },
    /// Everything ends.
    End(Error),
}

/// Between two tries.
const WAIT: Duration = Duration::from_millis(200);
/// How long the first try waits for a transaction of the owner before; it doubles with each. Short, so
/// that one that is held for long does not hold up the claims of others.
const PATIENCE: Duration = Duration::from_millis(100);

/// Claims until it has the partition; ends early when nobody listens any more. A claim that was
/// overtaken by a revoke raises an epoch for nothing, which harms nobody: the next owner raises it
/// again.
pub(super) async fn claim<Db: Database>(
    engine: Arc<Engine<Db>>,
    consumer: Weak<BaseConsumer<Context>>,
    wakes: Wakes,
    place: Place,
    claim: u64,
) {
    let mut patience = PATIENCE;
    let result = loop {
        if engine.is_up() {
            match try_claim(&engine, &consumer, &place, patience).await {
                Ok(Some(claim)) => break Ok(claim),
                Ok(None) => {}
                Err(refusal) => break Err(refusal),
            }
        }
        if consumer.upgrade().is_none_or(|consumer| consumer.context().is_closing()) {
            return;
        }
        tokio::time::sleep(WAIT).await;
        patience = patience.saturating_mul(2);
    };
    wakes.send(Wake::Claimed { place, claim, result: Box::new(result) });
}

/// Nothing if Kafka does not answer, or the database refuses: that was told.
async fn try_claim<Db: Database>(
    engine: &Arc<Engine<Db>>,
    consumer: &Weak<BaseConsumer<Context>>,
    place: &Place,
    patience: Duration,
) -> Result<Option<Claim>, Refusal> {
    let Some((low, _)) = ask(consumer, place, log_range).await else { return Ok(None) };
    let Some(found) = ask(consumer, place, which_log).await else { return Ok(None) };
    let (topic, partition) = place;
    // Before the take-over: what the database has afterwards is at least as young, unless it went back.
    let Some(committed) = ask(consumer, place, committed_number).await else { return Ok(None) };
    let owner = match engine.take_over(topic, *partition, Offset(low), committed, &found, patience).await {
        Ok(owner) => owner,
        Err(TakeOverError::Store(_)) => return Ok(None),
        Err(TakeOverError::Departed(departed)) => return Err(Refusal::End(departed.into())),
        Err(TakeOverError::WentBack { number, committed }) => {
            let (topic, partition) = place.clone();
            return Err(Refusal::End(Error::DatabaseWentBack { topic, partition, number, committed }));
        }
        Err(TakeOverError::OtherLog(OtherLog { recorded, incarnation })) => {
            return Err(Refusal::Stop { incarnation, reason: StopReason::OtherLog { recorded, found } });
        }
    };
    // Asked again, since the previous owner may have gone on until the take-over.
    let Some((low, high)) = ask(consumer, place, log_range).await else { return Ok(None) };
    let (low, high) = (Offset(low), Offset(high));
    let outside = |watermark: &Offset| *watermark < low || *watermark > high;
    if let Some(watermark) = owner.watermarks().iter().map(|(_, watermark)| *watermark).find(outside) {
        let reason = StopReason::OutsideLog { low, high, watermark };
        return Err(Refusal::Stop { incarnation: owner.incarnation(), reason });
    }
    let recognise = owner.last().filter(|last| last.offset >= low);
    Ok(Some(Claim { owner, recognise }))
}

/// What Kafka says of the partition; nothing if it does not answer, which is told.
async fn ask<T, E>(
    consumer: &Weak<BaseConsumer<Context>>,
    (topic, partition): &Place,
    question: fn(&BaseConsumer<Context>, &Topic, i32) -> Result<T, E>,
) -> Option<T>
where
    T: Send + 'static,
    E: Display + Send + 'static,
{
    // Held no longer than the question takes: who closes the client waits for it.
    let (consumer, asked, number) = (consumer.upgrade()?, topic.clone(), partition.0);
    let answer = spawn_blocking(move || question(&consumer, &asked, number)).await.ok()?;
    answer
        .map_err(|error| tracing::warn!(%topic, %partition, %error, "Kafka does not tell what it has of a partition"))
        .ok()
}
