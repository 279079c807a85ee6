//! librdkafka's callbacks, turned into events for the poll thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use inbox_core::{Partition, Topic};
use rdkafka::ClientContext;
use rdkafka::TopicPartitionList;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaRespErr;

use crate::config::{KafkaConfig, Secrets};
use crate::refusal::Troubles;
use crate::tokens::Tokens;

pub(crate) type Place = (Topic, Partition);

/// What the group decided.
#[derive(Debug)]
pub(crate) enum Rebalance {
    /// These are ours. Nothing is fetched of them yet.
    Assigned(Vec<Place>),
    /// These are to be given back; the group waits until they are unassigned. If they are `lost`,
    /// others may own them already.
    Revoked { places: Vec<Place>, lost: bool },
    /// The group works in a way that is not supported.
    Eager,
}

/// Collects rebalances; they arrive on the poll thread, inside `poll`.
pub(crate) struct Context {
    rebalances: Mutex<Vec<Rebalance>>,
    closing: AtomicBool,
    served: AtomicU64,
    secrets: Secrets,
    tokens: Option<Arc<Tokens>>,
    troubles: Troubles,
}

impl Context {
    /// Of one client.
    pub(crate) fn new(config: &KafkaConfig) -> Self {
        Self {
            rebalances: Mutex::default(),
            closing: AtomicBool::new(false),
            served: AtomicU64::new(0),
            secrets: config.secrets(),
            tokens: config.tokens(),
            troubles: Troubles::default(),
        }
    }

    /// How many callbacks there were, of those that a poll serves in silence.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    fn serve(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// What its brokers said.
    pub(crate) fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    pub(crate) fn take_rebalances(&self) -> Vec<Rebalance> {
        std::mem::take(&mut *self.rebalances.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on revokes are acknowledged at once: everything was given back before.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn push(&self, rebalance: Rebalance) {
        self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).push(rebalance);
    }
}

impl ClientContext for Context {
    /// librdkafka asks with the mechanism OAUTHBEARER only.
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.serve();
        let Some(tokens) = &self.tokens else { return Err("KafkaConfig::oauth was not called".into()) };
        Ok(tokens.present()?)
    }

    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        self.serve();
        let message = self.secrets.hidden_in(message);
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::error!(target: "librdkafka", fac, "{message}"),
            RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", fac, "{message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", fac, "{message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", fac, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // The client reconnects by itself; what is fatal is seen by the poll thread.
        self.troubles.note(&error, &self.secrets.hidden_in(reason));
    }
}

impl ConsumerContext for Context {
    /// Acknowledges an assignment at once with an empty one: each partition is added when its
    /// epoch is raised and its state loaded, however late. A revoke is only noted; the poll thread
    /// unassigns when what runs has ended.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, list: &mut TopicPartitionList) {
        self.serve();
        let nothing = TopicPartitionList::new();
        let done = match err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                if matches!(consumer.rebalance_protocol(), RebalanceProtocol::Eager) {
                    self.push(Rebalance::Eager);
                    consumer.assign(&nothing)
                } else {
                    self.push(Rebalance::Assigned(places(list)));
                    consumer.incremental_assign(&nothing)
                }
            }
            _ if matches!(consumer.rebalance_protocol(), RebalanceProtocol::Eager) => consumer.unassign(),
            _ if self.is_closing() => consumer.incremental_unassign(&nothing),
            _ => {
                self.push(Rebalance::Revoked { places: places(list), lost: consumer.assignment_lost() });
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::warn!(%error, "a rebalance could not be acknowledged");
        }
    }
}

fn places(list: &TopicPartitionList) -> Vec<Place> {
    list.elements().iter().map(|e| (Topic::new(e.topic()), Partition(e.partition()))).collect()
}
