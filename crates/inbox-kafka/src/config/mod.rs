//! What people set about Kafka.

mod credentials;
mod environment;
mod oauth;
mod properties;
mod secrets;
mod security;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use credentials::{ClientCertificate, Sasl};
pub use oauth::OauthToken;
pub(crate) use oauth::TokenSource;
pub use properties::ConfigError;
pub(crate) use secrets::Secrets;

use crate::tokens::Tokens;

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
///
/// How to connect by TLS, with a password, a certificate or tokens: [`tls`](Self::tls),
/// [`sasl`](Self::sasl), [`client_certificate`](Self::client_certificate), [`oauth`](Self::oauth). Secrets
/// are not shown by `Debug`.
#[derive(Clone, Default)]
pub struct KafkaConfig {
    properties: BTreeMap<String, String>,
    wait_for_topics: bool,
    token_source: Option<TokenSource>,
    /// The tokens of that source, once consuming has begun: shared by every client that it makes.
    tokens: Option<Arc<Tokens>>,
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

    /// TLS, with the certificate authorities in this PEM file (`None`: those of the system). The
    /// broker's certificate must be signed by one of them for the host name in the address (librdkafka's
    /// `ssl.endpoint.identification.algorithm=https`). Default: no TLS. Needs the feature `ssl`.
    #[must_use]
    pub fn tls(mut self, authorities: Option<&Path>) -> Self {
        if let Some(file) = authorities {
            self = self.property("ssl.ca.location", file.display().to_string());
        }
        let sasl = self.uses_sasl();
        self.protocol(true, sasl)
    }

    /// TLS with a certificate of one's own, for brokers that ask for one (mutual TLS). For other
    /// certificate authorities than those of the system call [`tls`](Self::tls) too. Needs the feature
    /// `ssl`.
    #[must_use]
    pub fn client_certificate(self, certificate: ClientCertificate) -> Self {
        let sasl = self.uses_sasl();
        certificate.set(self).protocol(true, sasl)
    }

    /// SASL with a name and a password. Over TLS if [`tls`](Self::tls) is set too, before or after. The
    /// SCRAM mechanisms need the feature `ssl`. The last of this and [`oauth`](Self::oauth) counts.
    #[must_use]
    pub fn sasl(self, credentials: Sasl) -> Self {
        let tls = self.uses_tls();
        let mut config = credentials.set(self).protocol(tls, true);
        config.token_source = None;
        config
    }

    /// SASL with tokens (OAUTHBEARER). Over TLS if [`tls`](Self::tls) is set too, before or after. Needs
    /// the feature `ssl`. The last of this and [`sasl`](Self::sasl) counts.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use inbox_kafka::{KafkaConfig, OauthToken};
    ///
    /// # async fn ask_identity_provider() -> Result<(String, u64), std::io::Error> { unimplemented!() }
    /// let config = KafkaConfig::new("broker:9093", "payments").tls(None).oauth(async || {
    ///     let (token, expires_in) = ask_identity_provider().await?;
    ///     Ok::<_, std::io::Error>(OauthToken::new(token, "payments", Duration::from_secs(expires_in)))
    /// });
    /// ```
    ///
    /// `fetch` is called in a tokio task of its own, never on the thread that polls Kafka. The first token
    /// is fetched before a client is made: if there is none within 10 s, consuming ends with
    /// [`Error::Token`](crate::Error::Token). Each further one is fetched after 70 % of the lifetime of the
    /// one before, so that it is there when librdkafka asks, after 80 %. Tokens should live for 10 s at
    /// least.
    ///
    /// A call that fails, panics or does not answer within 10 s is told as a warning, and repeated after
    /// 200 ms and more, up to 5 s. Meanwhile the token before is used until it expires. Then the broker ends
    /// the connections: nothing is lost, consuming stands still, and goes on by itself within some 10 s
    /// (librdkafka asks again that often) of the next token.
    #[must_use]
    pub fn oauth<F, Answer, E>(self, fetch: F) -> Self
    where
        F: Fn() -> Answer + Send + Sync + 'static,
        Answer: Future<Output = Result<OauthToken, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let tls = self.uses_tls();
        let mut config = self.property("sasl.mechanism", "OAUTHBEARER").protocol(tls, true);
        config.token_source = Some(TokenSource::new(fetch));
        config
    }

    /// Sets any librdkafka property. One that would break a promise (auto commit and the like) is
    /// refused when consuming starts.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    fn protocol(self, tls: bool, sasl: bool) -> Self {
        let protocol = match (tls, sasl) {
            (false, false) => "PLAINTEXT",
            (true, false) => "SSL",
            (false, true) => "SASL_PLAINTEXT",
            (true, true) => "SASL_SSL",
        };
        self.property("security.protocol", protocol)
    }

    /// Fetches the first token if there is a source of them, and from then on the others, until nothing
    /// has this configuration, or a client made from it, any more.
    pub(crate) async fn begin_tokens(&mut self, limit: Duration) -> Result<(), crate::Error> {
        self.check()?;
        if let Some(source) = &self.token_source {
            self.tokens = Some(Tokens::begin(source.clone(), limit).await?);
        }
        Ok(())
    }

    pub(crate) fn tokens(&self) -> Option<Arc<Tokens>> {
        self.tokens.clone()
    }

    pub(crate) fn secrets(&self) -> Secrets {
        Secrets::of(&self.properties)
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
                (name, if secrets::is_secret(name) { secrets::HIDDEN } else { value.as_str() })
            }))
            .finish()
    }
}
