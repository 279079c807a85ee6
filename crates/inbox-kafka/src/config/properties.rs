//! What librdkafka is given: the user's properties, less what would break a promise, plus what the
//! inbox needs.

use std::time::Duration;

use rdkafka::ClientConfig;

use super::KafkaConfig;

/// A property that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{property}: {problem}")]
pub struct ConfigError {
    /// The property.
    pub property: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl ConfigError {
    pub(super) fn new(property: &str, problem: impl Into<String>) -> Self {
        Self { property: property.into(), problem: problem.into() }
    }
}

/// Properties that the inbox sets, and why nobody else may.
const OURS: &[(&str, &str, &str)] = &[
    ("enable.auto.commit", "false", "an offset may be committed only when the database has the watermark"),
    ("enable.auto.offset.store", "false", "an offset may be stored only below the watermark"),
    (
        "auto.offset.reset",
        "error",
        "the database knows where to go on, and a silent reset would lose or repeat effects",
    ),
];

/// Defaults that people may change. The inbox bounds what is in flight, so that large prefetch
/// queues (they count per partition) only cost memory; and a short back-off keeps them filled.
const DEFAULTS: &[(&str, &str)] = &[
    ("client.id", "inbox"),
    ("fetch.queue.backoff.ms", "10"),
    ("queued.max.messages.kbytes", "1024"),
    ("queued.min.messages", "5000"),
    (REFRESH, "10000"),
];

/// How often new topics and partitions are looked for. The client library's own default is 5 minutes.
const REFRESH: &str = "topic.metadata.refresh.interval.ms";

const STRATEGY: &str = "partition.assignment.strategy";

impl KafkaConfig {
    /// The properties that librdkafka is given.
    pub(crate) fn to_client_config(&self) -> Result<ClientConfig, ConfigError> {
        self.check()?;
        let mut client = ClientConfig::new();
        for (property, value) in DEFAULTS {
            client.set(*property, *value);
        }
        if self.get("group.protocol") != Some("consumer") {
            client.set(STRATEGY, "cooperative-sticky");
        }
        for (property, value) in &self.properties {
            client.set(property, value);
        }
        for (property, value, _) in OURS {
            client.set(*property, *value);
        }
        Ok(client)
    }

    /// How often topics are looked for. What is not a number the client library refuses.
    pub(crate) fn refresh_interval(&self) -> Duration {
        let millis = self.get(REFRESH).and_then(|millis| millis.parse().ok()).filter(|millis| *millis > 0);
        Duration::from_millis(millis.unwrap_or(10_000))
    }

    /// The group's heartbeat: after one it has told a member what became of it.
    pub(crate) fn heartbeat(&self) -> Duration {
        let millis = self.get("heartbeat.interval.ms").and_then(|millis| millis.parse().ok());
        Duration::from_millis(millis.unwrap_or(3000))
    }

    /// A revoke waits for running transactions up to the drain limit, and the group for the revoke up
    /// to the rebalance time-out: the first must be the shorter one.
    pub(crate) fn check_drain_limit(&self, drain: Duration) -> Result<(), ConfigError> {
        const PROPERTY: &str = "max.poll.interval.ms";
        let interval = self.get(PROPERTY).map_or(Ok(300_000), str::parse);
        let interval =
            interval.map_err(|_| ConfigError::new(PROPERTY, "it is not a number of milliseconds"))?;
        if drain < Duration::from_millis(interval) {
            return Ok(());
        }
        Err(ConfigError::new(
            PROPERTY,
            format!(
                "its {interval} ms are not above the inbox's drain_limit of {drain:?}: raise it, or lower drain_limit"
            ),
        ))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.brokers().trim().is_empty() {
            return Err(ConfigError::new("bootstrap.servers", "it is empty: give host:port of a broker"));
        }
        if self.group().is_empty() {
            return Err(ConfigError::new("group.id", "it is empty: give the consumer group a name"));
        }
        for (property, value, reason) in OURS {
            if self.get(property).is_some_and(|set| set != *value) {
                return Err(ConfigError::new(
                    property,
                    format!("it cannot be changed from {value}: {reason}"),
                ));
            }
        }
        self.check_security()?;
        match (self.get("group.protocol"), self.get(STRATEGY)) {
            (Some("consumer"), Some(_)) => Err(ConfigError::new(
                STRATEGY,
                "with group.protocol=consumer the broker assigns: leave the strategy out",
            )),
            (_, Some(strategy)) if strategy != "cooperative-sticky" => Err(ConfigError::new(
                STRATEGY,
                format!(
                    "{strategy} is eager, it takes every partition away at each rebalance: use cooperative-sticky, or \
                     group.protocol=consumer"
                ),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> KafkaConfig {
        KafkaConfig::new("broker:9092", "payments")
    }

    #[test]
    fn what_would_break_a_promise_is_refused_with_the_reason() {
        for (property, value) in [
            ("enable.auto.commit", "true"),
            ("enable.auto.offset.store", "true"),
            ("auto.offset.reset", "earliest"),
            ("partition.assignment.strategy", "range"),
            ("partition.assignment.strategy", "roundrobin"),
        ] {
            let error = config().property(property, value).to_client_config().expect_err(property);
            assert_eq!(error.property, property);
            assert!(error.problem.len() > 20, "{error}");
        }
        assert!(KafkaConfig::new("", "g").to_client_config().is_err());
        assert!(KafkaConfig::new("b:1", "").to_client_config().is_err());
    }

    #[test]
    fn the_user_may_change_defaults_but_not_what_is_ours() {
        let client = config()
            .property("queued.min.messages", "7")
            .property("enable.auto.commit", "false")
            .to_client_config()
            .expect("fine");
        assert_eq!(client.get("queued.min.messages"), Some("7"));
        assert_eq!(client.get("enable.auto.commit"), Some("false"));
        assert_eq!(client.get("auto.offset.reset"), Some("error"));
        assert_eq!(client.get(STRATEGY), Some("cooperative-sticky"));
    }

    #[test]
    fn the_drain_limit_lies_below_the_rebalance_time_out() {
        let drain = Duration::from_secs(20);
        assert!(config().check_drain_limit(drain).is_ok());
        let short = config().property("max.poll.interval.ms", "20000");
        assert!(short.check_drain_limit(drain).is_err_and(|error| error.problem.contains("drain_limit")));
    }

    #[test]
    fn the_consumer_protocol_gets_no_strategy() {
        let config = config().group_protocol(super::super::GroupProtocol::Consumer);
        assert_eq!(config.to_client_config().expect("fine").get(STRATEGY), None);
        assert!(config.property(STRATEGY, "cooperative-sticky").to_client_config().is_err());
    }
}
