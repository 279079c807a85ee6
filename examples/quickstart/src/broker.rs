//! Kafka, in this process or real: the topic of one run.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use crate::Result;
use crate::workload::PARTITIONS;

/// How many payments the broker in this process can take: it keeps 5 MiB of each partition and
/// silently forgets what is older.
pub(crate) const MESSAGES_IN_PROCESS: u32 = 250_000;

/// How long a real broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How names of this example begin: its topics and consumer groups.
pub(crate) const PREFIX: &str = "quickstart-";

/// Where the payments of one run go.
pub(crate) struct Broker {
    pub(crate) addresses: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    /// After how long the group gives a dead worker's partitions to the next one. Short, so that the
    /// run is: 6 s is the least that Kafka accepts by default.
    pub(crate) session: Duration,
    /// It ends when it is dropped.
    in_process: Option<MockCluster<'static, DefaultProducerContext>>,
}

impl Broker {
    /// Makes the topic of this run, at these brokers or at one in this process.
    pub(crate) async fn start(brokers: Option<&str>, run: &str) -> Result<Self> {
        let topic = format!("{PREFIX}payments-{run}");
        let group = format!("{PREFIX}{run}");
        if let Some(brokers) = brokers {
            let broker = Self {
                addresses: brokers.to_owned(),
                topic,
                group,
                session: Duration::from_secs(6),
                in_process: None,
            };
            broker.create_topic().await?;
            return Ok(broker);
        }
        let cluster = MockCluster::new(1)?;
        cluster.create_topic(&topic, PARTITIONS, 1)?;
        Ok(Self {
            addresses: cluster.bootstrap_servers(),
            topic,
            group,
            session: Duration::from_secs(4),
            in_process: Some(cluster),
        })
    }

    pub(crate) fn describe(&self) -> String {
        match self.in_process {
            Some(_) => "a Kafka broker in this process".into(),
            None => format!("Kafka at {}", self.addresses),
        }
    }

    /// Deletes what was made at a real broker.
    pub(crate) async fn close(self) -> Result<()> {
        if self.in_process.is_none() {
            let deleted = self.admin()?.delete_topics(&[&self.topic], &options()).await?;
            for answer in deleted {
                answer.map_err(|(topic, code)| format!("the topic {topic} could not be deleted: {code}"))?;
            }
        }
        Ok(())
    }

    async fn create_topic(&self) -> Result<()> {
        let topic = NewTopic::new(&self.topic, PARTITIONS, TopicReplication::Fixed(-1));
        let created = self.admin()?.create_topics([&topic], &options()).await;
        let created = created.map_err(|error| format!("no Kafka at {}: {error}", self.addresses))?;
        for answer in created {
            answer.map_err(|(topic, code)| format!("the topic {topic} could not be created: {code}"))?;
        }
        Ok(())
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        Ok(ClientConfig::new().set("bootstrap.servers", &self.addresses).create()?)
    }
}

/// Refuses what the broker in this process could not keep.
pub(crate) fn check_limit(brokers: Option<&str>, messages: u32) -> Result<()> {
    if brokers.is_some() || messages <= MESSAGES_IN_PROCESS {
        return Ok(());
    }
    Err(format!(
        "--messages {messages} is too much for the broker in this process, which keeps 5 MiB of each of \
         {PARTITIONS} partitions: give at most {MESSAGES_IN_PROCESS}, or a real Kafka with --brokers HOST:PORT"
    )
    .into())
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::workload::{Outgoing, Workload};

    /// What a record takes in a batch beside key, id and value, with room for a share of the batch's
    /// header.
    const OVERHEAD: usize = 40;

    #[test]
    fn the_most_messages_fit_into_what_the_broker_in_this_process_keeps() {
        let workload = Workload::plan(1, MESSAGES_IN_PROCESS);
        let mut kept: HashMap<i32, usize> = HashMap::new();
        for record in workload.records() {
            let Outgoing { partition, key, id, value } = record.expect("it is plain");
            *kept.entry(partition).or_default() += key.len() + id.len() + value.len() + OVERHEAD;
        }
        let most = kept.values().max().copied().unwrap_or_default();
        assert!(most < 5 << 20, "{most} bytes");
    }

    #[test]
    fn beyond_that_it_says_what_to_do() {
        assert!(check_limit(None, MESSAGES_IN_PROCESS).is_ok());
        assert!(check_limit(Some("localhost:9092"), MESSAGES_IN_PROCESS + 1).is_ok());
        let error = check_limit(None, MESSAGES_IN_PROCESS + 1).expect_err("too many").to_string();
        assert!(error.contains("at most 250000") && error.contains("--brokers"), "{error}");
    }
}
