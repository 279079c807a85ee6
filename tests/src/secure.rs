//! The broker's listeners that are not plain, and an identity provider.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use inbox_kafka::{KafkaConfig, OauthToken};

use crate::service::Service;

/// The user that `tests/services` makes, for SCRAM.
pub const USER: &str = "inbox";
/// Its password, and that of the key in `client-locked.key`.
pub const PASSWORD: &str = "only-for-tests";

/// A listener of the broker.
#[derive(Clone, Copy, Debug)]
pub enum Listener {
    /// TLS.
    Tls,
    /// TLS, for clients with a certificate.
    MutualTls,
    /// TLS and SASL: SCRAM, OAUTHBEARER.
    Sasl,
}

impl Listener {
    /// Its address, by the name that its certificate is for.
    #[must_use]
    pub fn address(self) -> String {
        given(match self {
            Self::Tls => "INBOX_TEST_KAFKA_TLS",
            Self::MutualTls => "INBOX_TEST_KAFKA_MTLS",
            Self::Sasl => "INBOX_TEST_KAFKA_SASL",
        })
    }

    /// The service's configuration by this listener, without TLS or anything else to be let in.
    #[must_use]
    pub fn config(self, service: &Service) -> KafkaConfig {
        config_at(&self.address(), service)
    }

    /// The same, with TLS.
    #[must_use]
    pub fn tls(self, service: &Service) -> KafkaConfig {
        self.config(service).tls(Some(&file("ca.pem")))
    }
}

/// The service's configuration by another address.
#[must_use]
pub fn config_at(address: &str, service: &Service) -> KafkaConfig {
    let config = KafkaConfig::new(address, service.group.as_str())
        // The name is that of two addresses, and the broker listens on one.
        .property("broker.address.family", "v4");
    service.properties.iter().fold(config, |config, (name, value)| config.property(name, value))
}

/// A file of the broker's certificate authority: `ca.pem`, `client.crt`, `client.key`,
/// `client-expired.crt`, `client-locked.key`.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    PathBuf::from(given("INBOX_TEST_KAFKA_CERTS")).join(name)
}

fn given(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} is not set: start Kafka with tests/services, or give the listeners of your own (see there)"
        )
    })
}

/// How an identity provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// With a token of this lifetime.
    Gives(Duration),
    /// With a token that has expired, and the word that it lives that long.
    GivesExpired(Duration),
    /// With an error.
    Fails,
    /// Never.
    Hangs,
    /// Not at all.
    Panics,
}

/// An identity provider of the test.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    mood: Mutex<Mood>,
    calls: AtomicUsize,
    given: Mutex<Vec<String>>,
}

impl Provider {
    /// One that answers so.
    #[must_use]
    pub fn new(mood: Mood) -> Self {
        Self(Arc::new(Inner { mood: Mutex::new(mood), calls: AtomicUsize::new(0), given: Mutex::default() }))
    }

    /// From now on it answers so.
    pub fn set(&self, mood: Mood) {
        *self.0.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }

    /// How often it was asked.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Every token it gave.
    #[must_use]
    pub fn given(&self) -> Vec<String> {
        self.0.given.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds it to a configuration.
    #[must_use]
    pub fn feeds(&self, config: KafkaConfig) -> KafkaConfig {
        let provider = self.clone();
        config.oauth(move || {
            let provider = provider.clone();
            async move { provider.answer().await }
        })
    }

    async fn answer(&self) -> Result<OauthToken, std::io::Error> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let mood = *self.0.mood.lock().unwrap_or_else(PoisonError::into_inner);
        let (claimed, lifetime) = match mood {
            Mood::Gives(lifetime) => (lifetime.as_secs_f64(), lifetime),
            Mood::GivesExpired(lifetime) => (-60.0, lifetime),
            Mood::Fails => return Err(std::io::Error::other("the provider is out of order")),
            Mood::Hangs => std::future::pending().await,
            Mood::Panics => panic!("the provider panics"),
        };
        let token = unsigned_token(claimed);
        self.0.given.lock().unwrap_or_else(PoisonError::into_inner).push(token.clone());
        Ok(OauthToken::new(token, USER, lifetime))
    }
}

/// A JWS without a signature that expires in so many seconds.
fn unsigned_token(seconds: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let issued = now.min(now + seconds) - 1.0;
    let claims = format!(r#"{{"sub":"{USER}","iat":{issued:.3},"exp":{:.3}}}"#, now + seconds);
    let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.", part(r#"{"alg":"none"}"#), part(&claims))
}
