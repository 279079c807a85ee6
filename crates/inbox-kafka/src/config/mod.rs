//! What people set about Kafka.

mod environment;
mod properties;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use properties::ConfigError;

/// How to reach Kafka, and as which member of which group.
///
/// ```
/// use inbox_kafka::KafkaConfig;
///
/// let config = KafkaConfig::new("localhost:9092", "payments")
///     .static_member_id("payments-0")
///     .property("client.rack", "eu-west-1a");
/// ```
///
/// Everything is checked when consuming starts. Defaults: `cooperative-sticky` assignment, isolation
/// level read committed, small prefetch queues (the inbox bounds what is in flight).
#[derive(Clone, Default)]
pub struct KafkaConfig {
    properties: BTreeMap<String, String>,
    wait_for_topics: bool,
}

/// How the group agrees on who owns what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The classic protocol, with the `cooperative-sticky` strategy.
    Classic,
    /// `group.protocol=consumer` (KIP-848), where the broker assigns.
    Consumer,
}

/// Which records of transactional producers are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// Those of committed transactions only: the default.
    ReadCommitted,
    /// Also those of open and aborted transactions.
    ReadUncommitted,
}

/// SASL credentials.
#[derive(Clone)]
pub struct Sasl {
    mechanism: String,
    username: String,
    password: String,
}

impl Sasl {
    /// `mechanism` is one of librdkafka's: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`.
    pub fn new(
        mechanism: impl Into<String>,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        Self { mechanism: mechanism.into(), username: username.into(), password: password.into() }
    }
}

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl")
            .field("mechanism", &self.mechanism)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl KafkaConfig {
    /// A member of this group at these brokers (`host:port`, several separated by commas).
    pub fn new(brokers: impl Into<String>, group: impl Into<String>) -> Self {
        Self::default().property("bootstrap.servers", brokers).property("group.id", group)
    }

    /// From the environment: each variable `INBOX_KAFKA_X_Y` is the property `x.y`.
    /// `INBOX_KAFKA_BOOTSTRAP_SERVERS` and `INBOX_KAFKA_GROUP_ID` are required.
    ///
    /// # Errors
    /// If a required variable is missing, or one is not UTF-8.
    pub fn from_env() -> Result<Self, ConfigError> {
        environment::from_variables(std::env::vars_os())
    }

    /// Keeps the member's identity over restarts (static membership): a process that is killed and
    /// started again within the session time-out goes on with its partitions at once. Must be
    /// unique within the group.
    #[must_use]
    pub fn static_member_id(self, id: impl Into<String>) -> Self {
        self.property("group.instance.id", id)
    }

    /// How the group agrees on who owns what. Default: classic.
    #[must_use]
    pub fn group_protocol(self, protocol: GroupProtocol) -> Self {
        self.property(
            "group.protocol",
            match protocol {
                GroupProtocol::Classic => "classic",
                GroupProtocol::Consumer => "consumer",
            },
        )
    }

    /// Which records of transactional producers are seen. Default: read committed.
    #[must_use]
    pub fn isolation_level(self, level: IsolationLevel) -> Self {
        self.property(
            "isolation.level",
            match level {
                IsolationLevel::ReadCommitted => "read_committed",
                IsolationLevel::ReadUncommitted => "read_uncommitted",
            },
        )
    }

    /// After how long without a heartbeat the group gives this member's partitions to others.
    /// Default: 45 s. With `GroupProtocol::Consumer` the broker decides and refuses this.
    #[must_use]
    pub fn session_timeout(self, timeout: Duration) -> Self {
        self.property("session.timeout.ms", timeout.as_millis().to_string())
    }

    /// Starts also if topics do not exist yet, and consumes them from their first record on when they
    /// do: they are looked for each `topic.metadata.refresh.interval.ms` (10 s unless it is set). Default:
    /// a topic that does not exist ends the start with an error, since most often its name is mistyped.
    #[must_use]
    pub fn wait_for_topics(mut self) -> Self {
        self.wait_for_topics = true;
        self
    }

    /// TLS, with the certificate authorities in this PEM file (`None`: those of the system). Needs
    /// the feature `ssl`.
    #[must_use]
    pub fn tls(mut self, authorities: Option<&Path>) -> Self {
        let protocol = if self.uses_sasl() { "SASL_SSL" } else { "SSL" };
        if let Some(file) = authorities {
            self = self.property("ssl.ca.location", file.display().to_string());
        }
        self.property("security.protocol", protocol)
    }

    /// SASL. Over TLS if [`tls`](Self::tls) is set too, before or after. Needs the feature `ssl`.
    #[must_use]
    pub fn sasl(self, credentials: Sasl) -> Self {
        let tls = self.get("security.protocol").is_some_and(|protocol| protocol.ends_with("SSL"));
        self.property("security.protocol", if tls { "SASL_SSL" } else { "SASL_PLAINTEXT" })
            .property("sasl.mechanism", credentials.mechanism)
            .property("sasl.username", credentials.username)
            .property("sasl.password", credentials.password)
    }

    /// Sets any librdkafka property. One that would break a promise (auto commit and the like) is
    /// refused when consuming starts.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    fn uses_sasl(&self) -> bool {
        self.get("security.protocol").is_some_and(|protocol| protocol.starts_with("SASL"))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    pub(crate) fn waits_for_topics(&self) -> bool {
        self.wait_for_topics
    }

    pub(crate) fn group(&self) -> &str {
        self.get("group.id").unwrap_or_default()
    }

    pub(crate) fn brokers(&self) -> &str {
        self.get("bootstrap.servers").unwrap_or_default()
    }
}

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.properties.iter().map(|(name, value)| {
                let secret = ["password", "secret", "key", "token"].iter().any(|word| name.contains(word));
                (name, if secret { "…" } else { value })
            }))
            .finish()
    }
}
