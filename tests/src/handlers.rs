//! Handlers that do what [`Worker`](crate::job::Worker) cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diesel::sql_types::{BigInt, Integer};
use diesel::{QueryableByName, sql_query};
use diesel_async::RunQueryDsl as _;
use inbox_core::{
    BatchHandler, Codec, DecodeError, Definition, Failure, Handler, IdRule, Json, KeyRule, Message, Outcome,
    Postgres, Subscription, Tombstones, Tx,
};

use crate::job::{Act, Job, JobSubscription, Runs, note};
use crate::kafka::ID_HEADER;

/// Reads, then writes what it read: two of them in one transaction would lose an update.
pub struct Count {
    /// Its subscription.
    pub subscription: JobSubscription,
    /// How it reads.
    pub read: &'static str,
}

impl Subscription for Count {
    type Payload = Job;

    fn definition(&self) -> Definition<Job> {
        self.subscription.definition()
    }
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

impl Handler<Postgres> for Count {
    async fn handle(&self, _: &Message<Job>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        let Number { n } = sql_query(self.read).get_result(tx).await?;
        sql_query("UPDATE counter SET n = $1").bind::<BigInt, _>(n + 1).execute(tx).await?;
        Ok(())
    }
}

/// Counts in two hot rows, in one order or the other.
pub struct Move {
    /// Its subscription.
    pub subscription: JobSubscription,
}

impl Subscription for Move {
    type Payload = Job;

    fn definition(&self) -> Definition<Job> {
        self.subscription.definition()
    }
}

impl Handler<Postgres> for Move {
    async fn handle(&self, job: &Message<Job>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        let forwards = job.offset().0 % 2 == 0;
        for row in if forwards { [1, 2] } else { [2, 1] } {
            sql_query("UPDATE hot SET n = n + 1 WHERE id = $1").bind::<Integer, _>(row).execute(tx).await?;
        }
        note("jobs", job, tx).await
    }
}

/// Says that something else is down, until it is told otherwise.
pub struct Dependent {
    /// Its subscription.
    pub subscription: JobSubscription,
    /// Whether what it depends on is up.
    pub up: Arc<AtomicBool>,
    /// What it was called for.
    pub runs: Runs,
}

impl Subscription for Dependent {
    type Payload = Job;

    fn definition(&self) -> Definition<Job> {
        self.subscription.definition()
    }
}

impl Handler<Postgres> for Dependent {
    async fn handle(&self, job: &Message<Job>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        self.runs.begun(job);
        note("jobs", job, tx).await?;
        if AtomicBool::load(&self.up, Ordering::Acquire) {
            Ok(())
        } else {
            Err(Failure::infrastructure("the bank is closed"))
        }
    }
}

/// All messages of a batch by one statement; those with other acts than a note fail it.
pub struct Together {
    /// Its subscription.
    pub subscription: JobSubscription,
}

impl Subscription for Together {
    type Payload = Job;

    fn definition(&self) -> Definition<Job> {
        self.subscription.definition()
    }
}

impl BatchHandler<Postgres> for Together {
    async fn handle_batch(&self, jobs: &[&Message<Job>], tx: &mut Tx<'_, Postgres>) -> Outcome {
        for job in jobs {
            note("jobs", job, tx).await?;
            if let [Act::Fail(words)] = &job.acts[..] {
                return Err(Failure::permanent(words));
            }
        }
        Ok(())
    }
}

/// A payload whose fields may be missing.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct Loose {
    /// The message id.
    pub id: Option<String>,
    /// The business key.
    pub account: Option<String>,
}

/// Takes id and key from the payload.
pub struct FromPayload {
    /// Its name.
    pub name: &'static str,
    /// Its topic.
    pub topic: String,
}

impl Subscription for FromPayload {
    type Payload = Loose;

    fn definition(&self) -> Definition<Loose> {
        Definition::new(self.name, Json)
            .topic(self.topic.as_str())
            .id(IdRule::payload("id", |loose: &Loose| &loose.id))
            .key(KeyRule::payload("account", |loose: &Loose| &loose.account))
    }
}

impl Handler<Postgres> for FromPayload {
    async fn handle(&self, loose: &Message<Loose>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        note(self.name, loose, tx).await
    }
}

/// Takes its id from the headers that `CloudEvents` define; a codec of its own that panics.
pub struct Events {
    /// Its name.
    pub name: &'static str,
    /// Its topic.
    pub topic: String,
}

/// Panics on the value `panic`.
struct Touchy;

impl Codec<Vec<u8>> for Touchy {
    fn decode(&self, value: &[u8]) -> Result<Vec<u8>, DecodeError> {
        assert!(value != b"panic", "the value says so");
        Ok(value.to_vec())
    }
}

impl Subscription for Events {
    type Payload = Vec<u8>;

    fn definition(&self) -> Definition<Vec<u8>> {
        Definition::new(self.name, Touchy)
            .topic(self.topic.as_str())
            .id(IdRule::cloud_event())
            .key(KeyRule::record())
    }
}

impl Handler<Postgres> for Events {
    async fn handle(&self, event: &Message<Vec<u8>>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        note(self.name, event, tx).await
    }
}

/// Wants no record with a header `skip`.
pub struct Choosy {
    /// Its subscription.
    pub subscription: JobSubscription,
}

impl Subscription for Choosy {
    type Payload = Job;

    fn definition(&self) -> Definition<Job> {
        self.subscription.definition().filter(|record| record.headers.get("skip").is_none())
    }
}

impl Handler<Postgres> for Choosy {
    async fn handle(&self, job: &Message<Job>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        note(&self.subscription.name, job, tx).await
    }
}

/// Takes tombstones too, and notes them under another name.
pub struct Mourner {
    /// Its name; that of tombstones has `.gone` behind it.
    pub name: &'static str,
    /// Its topic.
    pub topic: String,
}

impl Subscription for Mourner {
    type Payload = Option<Job>;

    fn definition(&self) -> Definition<Option<Job>> {
        Definition::new(self.name, Tombstones(Json))
            .topic(self.topic.as_str())
            .id(IdRule::header(ID_HEADER))
            .key(KeyRule::payload_or("account", |job: &Job| &job.account, KeyRule::record()))
    }
}

impl Handler<Postgres> for Mourner {
    async fn handle(&self, job: &Message<Option<Job>>, tx: &mut Tx<'_, Postgres>) -> Outcome {
        let gone = format!("{}.gone", self.name);
        note(if job.payload().is_some() { self.name } else { &gone }, job, tx).await
    }
}
