//! Messages that say what their handler is to do, and the handler that does it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel::QueryableByName;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel_async::RunQueryDsl;
use futures_util::TryStreamExt as _;
use inbox_core::{
    BusinessKey, Definition, Failure, Handler, IdRule, Json, KeyRule, Message, OnDead, Outcome, Postgres,
    Start, Subscription, Timestamp, Tx,
};
use serde::{Deserialize, Serialize};

use crate::kafka::{ID_HEADER, Outgoing};

/// The payload of most tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The business key, where the key rule is a payload field.
    pub account: String,
    /// What its handler does, in this order.
    pub acts: Vec<Act>,
}

/// One thing that the handler of a [`Job`] does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// The effect: one row in the ledger, one statement.
    Note,
    /// Reads the ledger: with `Note` the second statement.
    Look,
    /// Waits this many milliseconds.
    Sleep(u64),
    /// Waits this many milliseconds in a statement.
    SleepInDatabase(u64),
    /// Waits this many milliseconds and holds up its thread.
    Block(u64),
    /// Panics.
    Panic,
    /// Panics until its attempt has this number.
    PanicUntil(u32),
    /// Waits for ever until its attempt has this number.
    HangUntil(u32),
    /// Fails for a while: until its attempt has this number.
    FailUntil(u32),
    /// Fails until its attempt has this number, and asks for this many milliseconds before the next one.
    FailAndAsk(u32, u64),
    /// Fails for good, with these words.
    Fail(String),
    /// Sends this statement.
    Send(String),
    /// Sends this statement and does not look at what came of it.
    SendAndForget(String),
    /// Asks for rows of one integer, takes the first, and drops the rest.
    Peek(String),
}

impl Job {
    /// A job that has its effect and nothing else.
    #[must_use]
    pub fn note(account: &str) -> Self {
        Self::of(account, [Act::Note])
    }

    /// A job of these acts.
    #[must_use]
    pub fn of(account: &str, acts: impl Into<Vec<Act>>) -> Self {
        Self { account: account.into(), acts: acts.into() }
    }

    /// Its record: the account is the record key too.
    #[must_use]
    pub fn outgoing(&self, partition: i32, id: &str) -> Outgoing {
        Outgoing::new(partition, id, &self.account, self.value())
    }

    /// The record's value.
    #[must_use]
    pub fn value(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a job is JSON")
    }
}

/// Where the business key of jobs comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyFrom {
    /// The record key.
    #[default]
    Record,
    /// The payload's account.
    Account,
    /// The partition.
    Partition,
}

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Begin {
    /// `Start::Earliest`
    Earliest,
    /// `Start::Latest`
    Latest,
    /// `Start::Committed`
    Committed,
    /// `Start::Time`
    Time(i64),
}

impl Begin {
    fn start(self) -> Start {
        match self {
            Self::Earliest => Start::Earliest,
            Self::Latest => Start::Latest,
            Self::Committed => Start::Committed,
            Self::Time(millis) => Start::Time(Timestamp(millis)),
        }
    }
}

/// A subscription to jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobSubscription {
    /// Its durable name.
    pub name: String,
    /// Its topics.
    pub topics: Vec<String>,
    /// Patterns of further topics.
    pub patterns: Vec<String>,
    /// Its key rule.
    pub key: KeyFrom,
    /// Whether ids come from the offset instead of the header.
    pub id_from_offset: bool,
    /// The most messages in one transaction.
    pub max_batch: Option<usize>,
    /// The most milliseconds of one call.
    pub time_limit: Option<u64>,
    /// Where it begins, if that is said.
    pub begin: Option<Begin>,
    /// Whether a dead letter holds its key.
    pub blocks: bool,
}

impl JobSubscription {
    /// A subscription to one topic.
    #[must_use]
    pub fn new(name: &str, topic: &str) -> Self {
        Self {
            name: name.into(),
            topics: vec![topic.into()],
            patterns: Vec::new(),
            key: KeyFrom::default(),
            id_from_offset: false,
            max_batch: None,
            time_limit: None,
            begin: None,
            blocks: false,
        }
    }

    /// Its definition.
    #[must_use]
    pub fn definition(&self) -> Definition<Job> {
        let mut definition = Definition::new(self.name.as_str(), Json)
            .id(if self.id_from_offset { IdRule::offset() } else { IdRule::header(ID_HEADER) })
            .key(match self.key {
                KeyFrom::Record => KeyRule::record(),
                KeyFrom::Account => KeyRule::payload("account", |job: &Job| &job.account),
                KeyFrom::Partition => KeyRule::partition(),
            });
        for topic in &self.topics {
            definition = definition.topic(topic.as_str());
        }
        for pattern in &self.patterns {
            definition = definition.topic_pattern(pattern);
        }
        if let Some(messages) = self.max_batch {
            definition = definition.max_batch(messages);
        }
        if let Some(millis) = self.time_limit {
            definition = definition.time_limit(Duration::from_millis(millis));
        }
        if self.blocks {
            definition = definition.on_dead(OnDead::Block);
        }
        if let Some(begin) = self.begin {
            definition = definition.start(begin.start());
        }
        definition
    }
}

/// Does what each job says.
pub struct Worker {
    subscription: JobSubscription,
    runs: Runs,
}

impl Worker {
    /// A handler that tells its runs.
    #[must_use]
    pub fn new(subscription: &JobSubscription, runs: &Runs) -> Self {
        Self { subscription: subscription.clone(), runs: runs.clone() }
    }
}

impl Subscription for Worker {
    type Payload = Job;

    fn definition(&self) -> Definition<Job> {
        self.subscription.definition()
    }
}

impl Handler<Postgres> for Worker {
    async fn handle(&self, job: &Message<Job>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        self.runs.begun(job);
        let attempt = job.attempt();
        for act in &job.acts {
            match act {
                Act::Note => note(&self.subscription.name, job, tx).await?,
                Act::Look => look(tx).await?,
                Act::Sleep(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
                Act::SleepInDatabase(millis) => {
                    send(tx, &format!("SELECT pg_sleep({millis}::float8 / 1000)")).await?;
                }
                Act::Block(millis) => std::thread::sleep(Duration::from_millis(*millis)),
                Act::Panic => panic!("the job says so"),
                Act::PanicUntil(wanted) => assert!(attempt >= *wanted, "the job says so"),
                Act::HangUntil(wanted) if attempt < *wanted => std::future::pending().await,
                Act::FailUntil(wanted) if attempt < *wanted => {
                    return Err(Failure::transient("the job says not yet"));
                }
                Act::FailAndAsk(wanted, millis) if attempt < *wanted => {
                    return Err(Failure::transient_after(Duration::from_millis(*millis), "come back later"));
                }
                Act::HangUntil(_) | Act::FailUntil(_) | Act::FailAndAsk(..) => {}
                Act::Fail(words) => return Err(Failure::permanent(words)),
                Act::Send(sql) => send(tx, sql).await?,
                Act::SendAndForget(sql) => drop(send(tx, sql).await),
                Act::Peek(sql) => peek(tx, sql).await?,
            }
        }
        Ok(())
    }
}

async fn look(tx: &mut Tx<'_, Postgres>) -> Outcome {
    send(tx, "SELECT 1 FROM effects LIMIT 1").await
}

async fn send(tx: &mut Tx<'_, Postgres>, sql: &str) -> Outcome {
    diesel::sql_query(sql).execute(tx).await?;
    Ok(())
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Integer)]
    #[expect(dead_code, reason = "only that there is a row matters")]
    n: i32,
}

async fn peek(tx: &mut Tx<'_, Postgres>, sql: &str) -> Outcome {
    let mut rows = diesel::sql_query(sql).load_stream::<Number>(tx).await?;
    rows.try_next().await?;
    Ok(())
}

/// The effect of a message: a row in the ledger, by one statement.
///
/// # Errors
/// The database's.
pub async fn note<P>(subscription: &str, message: &Message<P>, tx: &mut Tx<'_, Postgres>) -> Outcome {
    diesel::sql_query(
        "INSERT INTO effects (subscription, message_id, business_key, topic, partition, record_offset, attempt) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind::<Text, _>(subscription)
    .bind::<Binary, _>(message.id().as_str().as_bytes())
    .bind::<Nullable<Binary>, _>(message.key().map(BusinessKey::as_bytes))
    .bind::<Text, _>(message.topic().as_str())
    .bind::<Integer, _>(message.partition().0)
    .bind::<BigInt, _>(message.offset().0)
    .bind::<Integer, _>(i32::try_from(message.attempt()).unwrap_or(i32::MAX))
    .execute(tx)
    .await?;
    Ok(())
}

/// How often a handler was called for which message, in this process.
#[derive(Clone, Debug, Default)]
pub struct Runs(Arc<Mutex<HashMap<String, Vec<u32>>>>);

impl Runs {
    /// A call begins.
    pub fn begun<P>(&self, message: &Message<P>) {
        self.lock().entry(message.id().as_str().to_owned()).or_default().push(message.attempt());
    }

    /// The attempt numbers with which it was called for a message, in order.
    #[must_use]
    pub fn of(&self, id: &str) -> Vec<u32> {
        self.lock().get(id).cloned().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<u32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
