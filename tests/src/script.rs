//! A handler that does what a message tells it.

use std::time::Duration;

use inbox_core::{
    Definition, Failure, Handler, Headers, IdRule, Json, KeyRule, Message, MessageId, Offset, Outcome,
    Partition, Place, Record, Subscription, Topic, Tx,
};

use crate::dialect::Dialect;

/// What a [`Script`] does next.
#[derive(Clone, Debug, serde::Deserialize)]
pub enum Step {
    /// Sends a statement; its error ends the handler.
    Send(String),
    /// Sends a statement and goes on whatever comes of it.
    SendAndForget(String),
    /// Sends a statement that must fail; if it does not, the handler fails permanently.
    SendToFail(String),
    /// Calls `batch_execute` and goes on whatever comes of it.
    SendBatch(String),
    /// Sends a statement and drops it, unless it was over within this many milliseconds.
    SendAndDrop(String, u64),
    /// Makes a savepoint.
    Savepoint,
    /// Keeps what came since the last savepoint.
    Release,
    /// Undoes what came since the last savepoint.
    RollbackTo,
    /// Waits this many milliseconds.
    Wait(u64),
    /// Panics.
    Panic,
    /// Fails, for good.
    FailPermanently,
}

impl Step {
    /// [`Step::Send`].
    pub fn send(sql: impl Into<String>) -> Self {
        Self::Send(sql.into())
    }
}

/// Does the steps of each message, in order.
#[derive(Clone, Copy, Debug)]
pub struct Script;

impl Subscription for Script {
    type Payload = Vec<Step>;

    fn definition(&self) -> Definition<Vec<Step>> {
        Definition::new("script", Json).topic("script").id(IdRule::offset()).key(KeyRule::partition())
    }
}

impl<Db: Dialect> Handler<Db> for Script {
    async fn handle(&self, message: &Message<Vec<Step>>, tx: &mut Tx<'_, Db>) -> Outcome {
        let mut savepoints = Vec::new();
        for step in message.payload() {
            match step {
                Step::Send(sql) => {
                    Db::send(tx, sql).await?;
                }
                Step::SendAndForget(sql) => drop(Db::send(tx, sql).await),
                Step::SendToFail(sql) => {
                    if Db::send(tx, sql).await.is_ok() {
                        return Err(Failure::permanent(format!("{sql}: it did not fail")));
                    }
                }
                Step::SendBatch(sql) => drop(Db::send_batch(tx, sql).await),
                Step::SendAndDrop(sql, millis) => {
                    drop(tokio::time::timeout(Duration::from_millis(*millis), Db::send(tx, sql)).await);
                }
                Step::Savepoint => savepoints.push(tx.savepoint().await?),
                Step::Release => tx.release(savepoints.pop().expect("a savepoint")).await?,
                Step::RollbackTo => tx.rollback_to(savepoints.pop().expect("a savepoint")).await?,
                Step::Wait(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
                Step::Panic => panic!("the script says so"),
                Step::FailPermanently => return Err(Failure::permanent("the script says so")),
            }
        }
        Ok(())
    }
}

/// A message with these steps.
#[must_use]
pub fn message(steps: impl IntoIterator<Item = Step>) -> Message<Vec<Step>> {
    message_of(steps.into_iter().collect())
}

/// A message with this payload.
#[must_use]
pub fn message_of<P>(payload: P) -> Message<P> {
    Message::new(payload, MessageId::new("script"), None, record(0, None))
}

/// A record of the scene's partition.
#[must_use]
pub fn record(offset: i64, value: Option<&[u8]>) -> Record {
    let place = Place { topic: Topic::new("orders"), partition: Partition(3), offset: Offset(offset) };
    Record::new(place, None, None, value.map(|value| value.to_vec().into()), Headers::default())
}
