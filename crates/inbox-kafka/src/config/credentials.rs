//! What a client shows to be let in: a name with a password, or a certificate.

use std::fmt;
use std::path::{Path, PathBuf};

use super::KafkaConfig;

/// SASL credentials: a name with a password. For tokens see [`KafkaConfig::oauth`].
#[derive(Clone)]
pub struct Sasl {
    mechanism: String,
    username: String,
    password: String,
}

impl Sasl {
    /// `mechanism` is `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`. `PLAIN` sends the password as it is:
    /// only over TLS.
    pub fn new(
        mechanism: impl Into<String>,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        Self { mechanism: mechanism.into(), username: username.into(), password: password.into() }
    }

    pub(super) fn set(self, config: KafkaConfig) -> KafkaConfig {
        config
            .property("sasl.mechanism", self.mechanism)
            .property("sasl.username", self.username)
            .property("sasl.password", self.password)
    }
}

/// Without the password.
impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl")
            .field("mechanism", &self.mechanism)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// A client's own certificate and key, for brokers that ask for one (mutual TLS).
///
/// ```
/// use inbox_kafka::ClientCertificate;
///
/// let certificate = ClientCertificate::new("/etc/payments/client.crt", "/etc/payments/client.key")
///     .key_password("of the key");
/// ```
#[derive(Clone)]
pub struct ClientCertificate {
    certificate: PathBuf,
    key: PathBuf,
    password: Option<String>,
}

impl ClientCertificate {
    /// Two PEM files: the certificate, followed by those between it and the authority if there are any,
    /// and its private key. They are read when consuming starts.
    pub fn new(certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        Self { certificate: certificate.as_ref().into(), key: key.as_ref().into(), password: None }
    }

    /// The password with which the key is encrypted. Default: it is not.
    #[must_use]
    pub fn key_password(self, password: impl Into<String>) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    pub(super) fn set(self, config: KafkaConfig) -> KafkaConfig {
        let config = config
            .property("ssl.certificate.location", self.certificate.display().to_string())
            .property("ssl.key.location", self.key.display().to_string());
        match self.password {
            Some(password) => config.property("ssl.key.password", password),
            None => config,
        }
    }
}

/// Without the password.
impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate")
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
