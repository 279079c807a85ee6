//! What must be true at the end: each distinct message has one effect, in order per key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use inbox_core::PostgresStore;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

use crate::kafka::FreshTopic;
use crate::postgres::FreshDatabase;
use crate::wait;

/// A database of its own with the inbox's schema and a ledger into which handlers write.
pub struct Ledger {
    /// Connected as whoever looks from outside.
    pub client: Client,
    // Last: it is dropped when nobody is connected any more.
    database: FreshDatabase,
}

/// One effect: a row that a handler's transaction has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Whose.
    pub subscription: String,
    /// The message id.
    pub id: String,
    /// The business key.
    pub key: Option<Vec<u8>>,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// What `attempt()` said.
    pub attempt: i32,
    /// The process: the application name of its connection.
    pub worker: String,
}

/// A row of the inbox that is not a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The message id.
    pub id: Vec<u8>,
    /// Its class.
    pub class: String,
    /// Why.
    pub reason: String,
    /// The business key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub payload: Option<Vec<u8>>,
    /// The record key.
    pub record_key: Option<Vec<u8>>,
    /// The headers, as they are stored.
    pub headers: Option<Vec<u8>>,
    /// How often it was tried.
    pub attempts: i32,
    /// The timestamp.
    pub time: Option<i64>,
    /// The offset.
    pub offset: i64,
}

impl Ledger {
    /// Makes it.
    pub async fn new() -> Self {
        Self::of(FreshDatabase::create().await).await
    }

    /// Makes it in this database.
    pub async fn of(database: FreshDatabase) -> Self {
        let ledger = Self::bare(database).await;
        let store = PostgresStore::connect(&ledger.url()).await.expect("the database answers");
        store.migrate().await.expect("the migrations run");
        ledger
            .execute(
                "CREATE TABLE effects (
                     seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                     subscription text NOT NULL,
                     message_id bytea NOT NULL,
                     business_key bytea,
                     topic text NOT NULL,
                     partition integer NOT NULL,
                     record_offset bigint NOT NULL,
                     attempt integer NOT NULL,
                     worker text NOT NULL DEFAULT current_setting('application_name'),
                     at timestamptz NOT NULL DEFAULT clock_timestamp()
                 )",
            )
            .await;
        ledger
    }

    /// Over a database without anything in it.
    pub async fn bare(database: FreshDatabase) -> Self {
        let client = connect(&database.url()).await;
        Self { client, database }
    }

    /// The same, after the server was started anew.
    pub async fn reconnected(self) -> Self {
        Self::bare(self.database).await
    }

    /// The same, on a server that has a copy of the database.
    pub async fn moved_to(self, server: &str) -> Self {
        Self::bare(self.database.moved_to(server)).await
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Runs statements.
    pub async fn execute(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Asks.
    pub async fn query(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        self.client.query(sql, values).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// Asks for a number.
    pub async fn number(&self, sql: &str) -> i64 {
        self.query(sql, &[]).await[0].get(0)
    }

    /// Every effect, in the order in which they came about.
    pub async fn effects(&self) -> Vec<Effect> {
        let rows = self
            .query(
                "SELECT subscription, message_id, business_key, topic, partition, record_offset, attempt, worker \
                 FROM effects ORDER BY seq",
                &[],
            )
            .await;
        rows.iter()
            .map(|row| Effect {
                subscription: row.get(0),
                id: String::from_utf8(row.get(1)).expect("ids are UTF-8"),
                key: row.get(2),
                topic: row.get(3),
                partition: row.get(4),
                offset: row.get(5),
                attempt: row.get(6),
                worker: row.get(7),
            })
            .collect()
    }

    /// How many effects there are.
    pub async fn count(&self) -> usize {
        usize::try_from(self.number("SELECT count(*) FROM effects").await).expect("not negative")
    }

    /// How many receipts there are.
    pub async fn receipts(&self) -> usize {
        usize::try_from(self.number("SELECT count(*) FROM inbox.messages WHERE state = 2").await)
            .expect("not negative")
    }

    /// Waits until there are at least so many effects.
    pub async fn reaches(&self, effects: usize) {
        let mut last = 0;
        wait::until(&format!("{effects} effects"), async || {
            let now = self.count().await;
            if now != last && std::env::var_os("INBOX_TEST_LOG").is_some() {
                eprintln!("{now} of {effects} effects");
            }
            last = now;
            now >= effects
        })
        .await;
    }

    /// Every dead letter, in the order of their offsets.
    pub async fn dead(&self) -> Vec<Dead> {
        let rows = self
            .query(
                "SELECT raw_id, class, reason, business_key, payload, record_key, headers, attempts, record_time, \
                 record_offset FROM inbox.messages WHERE state = 1 ORDER BY partition_id, record_offset",
                &[],
            )
            .await;
        rows.iter()
            .map(|row| Dead {
                id: row.get(0),
                class: row.get(1),
                reason: row.get::<_, Option<String>>(2).unwrap_or_default(),
                key: row.get(3),
                payload: row.get(4),
                record_key: row.get(5),
                headers: row.get(6),
                attempts: row.get(7),
                time: row.get(8),
                offset: row.get(9),
            })
            .collect()
    }

    /// The lowest watermark of each partition of the topic, with the partition's flush number.
    pub async fn watermarks(&self, topic: &FreshTopic) -> Vec<(i64, i64)> {
        let rows = self
            .query(
                "SELECT min(w.watermark), p.flush_number FROM inbox.partitions p \
                 JOIN inbox.watermarks w ON w.partition_id = p.id \
                 WHERE p.topic = $1 GROUP BY p.partition, p.flush_number ORDER BY p.partition",
                &[&topic.name()],
            )
            .await;
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// How many open rows there are.
    pub async fn open(&self) -> usize {
        usize::try_from(self.number("SELECT count(*) FROM inbox.messages WHERE state = 0").await)
            .expect("not negative")
    }

    /// Waits until every record of the topic lies below the watermark, and no row is open: none is stuck.
    pub async fn is_finished(&self, topic: &FreshTopic) {
        self.is_passed(topic).await;
        wait::until("no open row", async || self.open().await == 0).await;
    }

    /// Waits until every record of the topic lies below the watermark.
    pub async fn is_passed(&self, topic: &FreshTopic) {
        let ends: Vec<i64> = topic.ends();
        wait::until_is("the watermarks", ends, async || {
            self.watermarks(topic).await.iter().map(|(watermark, _)| *watermark).collect()
        })
        .await;
    }

    /// Asserts that these messages, and no others, had their effect in this subscription: each
    /// distinct id once, and those of a key in the order of their offsets.
    pub async fn assert_once_in_order(&self, subscription: &str, sent: &[Sent]) {
        let effects = self.effects().await;
        let of_it: Vec<&Effect> = effects.iter().filter(|e| e.subscription == subscription).collect();
        let mistakes = mistakes(&of_it, sent);
        assert!(mistakes.is_empty(), "subscription {subscription}:\n{mistakes}");
    }
}

/// A connection of its own.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the database answers");
    tokio::spawn(connection);
    client
}

/// A record that the broker has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The message id.
    pub id: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// How many distinct messages these are.
#[must_use]
pub fn distinct(sent: &[Sent]) -> usize {
    sent.iter().map(|sent| &sent.id).collect::<BTreeSet<_>>().len()
}

/// What is wrong with these effects of what was sent: lost, doubled, of nobody, out of order.
#[must_use]
pub fn mistakes(effects: &[&Effect], sent: &[Sent]) -> String {
    let mut said = String::new();
    let mut say = |mistake: String| {
        if said.len() < 4000 {
            let _ = writeln!(said, "{mistake}");
        }
    };
    let mut count: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
    for effect in effects {
        count.entry(&effect.id).or_default().push(effect);
    }
    let wanted: BTreeMap<&str, Vec<&Sent>> = sent.iter().fold(BTreeMap::new(), |mut wanted, sent| {
        wanted.entry(&*sent.id).or_insert_with(Vec::new).push(sent);
        wanted
    });
    for (id, sent) in &wanted {
        match count.get(id).map_or(&[][..], Vec::as_slice) {
            [] => say(format!("lost: {id}, sent as {sent:?}")),
            [effect] => {
                if !sent.iter().any(|s| (s.partition, s.offset) == (effect.partition, effect.offset)) {
                    say(format!("from nowhere: {effect:?}, sent as {sent:?}"));
                }
            }
            several => say(format!("doubled: {several:?}")),
        }
    }
    for id in count.keys().filter(|id| !wanted.contains_key(**id)) {
        say(format!("of nobody: {id}"));
    }
    let mut last: BTreeMap<_, &Effect> = BTreeMap::new();
    for effect in effects.iter().filter(|effect| effect.key.is_some()) {
        let before = last.insert((&effect.topic, effect.partition, &effect.key), effect);
        if let Some(before) = before.filter(|before| before.offset >= effect.offset) {
            say(format!("out of order: {effect:?} after {before:?}"));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(id: &str, offset: i64) -> Effect {
        Effect {
            subscription: "s".into(),
            id: id.into(),
            key: Some(b"k".to_vec()),
            topic: "t".into(),
            partition: 0,
            offset,
            attempt: 1,
            worker: "w".into(),
        }
    }

    fn sent(id: &str, offset: i64) -> Sent {
        Sent { id: id.into(), partition: 0, offset }
    }

    fn said(effects: &[Effect], sent: &[Sent]) -> String {
        mistakes(&effects.iter().collect::<Vec<_>>(), sent)
    }

    #[test]
    fn each_mistake_is_seen() {
        let both = [sent("a", 0), sent("b", 1)];
        assert_eq!(said(&[effect("a", 0), effect("b", 1)], &both), "");
        assert!(said(&[effect("a", 0)], &both).starts_with("lost: b"));
        assert!(said(&[effect("a", 0), effect("a", 0), effect("b", 1)], &both).starts_with("doubled:"));
        assert!(said(&[effect("b", 1), effect("a", 0)], &both).starts_with("out of order:"));
        assert!(said(&[effect("a", 0), effect("b", 1), effect("c", 2)], &both).starts_with("of nobody: c"));
        assert!(said(&[effect("a", 0), effect("b", 7)], &both).starts_with("from nowhere:"));
    }
}
