//! Why a broker cannot be reached, as far as librdkafka's error codes say it: TLS and authentication are
//! not mended by waiting, and its answer to a question is the same as for a broker that is down.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::config::KafkaConfig;
use crate::error::Error;

/// What a person has to mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Tls,
    Authentication,
}

impl Refusal {
    /// By the code; the words differ from one version to the next.
    pub(crate) fn of(error: &KafkaError) -> Option<Self> {
        match error.rdkafka_error_code()? {
            Code::SSL => Some(Self::Tls),
            Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedSASLMechanism
            | Code::IllegalSASLState => Some(Self::Authentication),
            _ => None,
        }
    }

    pub(crate) fn what_to_check(self) -> &'static str {
        match self {
            Self::Tls => {
                "check that the broker's certificate is for the host name in the address, has not expired and is \
                 signed by an authority that `tls` names; and that a client certificate is there if the broker wants \
                 one, and is one that it trusts"
            }
            Self::Authentication => {
                "check the mechanism, and the user name and password, or what the broker demands of a token: issuer, \
                 audience, scope, time"
            }
        }
    }
}

/// What one client was told by its brokers.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    refusal: Option<(Refusal, String)>,
    reason: Option<String>,
    told: Option<Instant>,
}

impl Troubles {
    /// A refusal comes with each attempt to connect, and from each broker.
    const TOLD_EACH: Duration = Duration::from_secs(30);

    /// Notes an error of the client and tells it.
    pub(crate) fn note(&self, error: &KafkaError, reason: &str) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(refusal) = Refusal::of(error) else {
            // Only follows from what was told before.
            if error.rdkafka_error_code() != Some(Code::AllBrokersDown) {
                noted.reason = Some(reason.to_owned());
            }
            tracing::warn!(target: "librdkafka", %error, "{reason}");
            return;
        };
        noted.refusal = Some((refusal, reason.to_owned()));
        if noted.told.is_some_and(|told| told.elapsed() < Self::TOLD_EACH) {
            tracing::debug!(%error, reason, "a broker still refuses the connection");
        } else {
            noted.told = Some(Instant::now());
            tracing::warn!(%error, reason, "a broker refuses the connection: {}", refusal.what_to_check());
        }
    }

    /// Whether some broker refused the connection.
    pub(crate) fn are_refusals(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).refusal.is_some()
    }

    /// The error for a question that nobody answered.
    pub(crate) fn explain(&self, config: &KafkaConfig, limit: Duration, source: KafkaError) -> Error {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let brokers = config.brokers().to_owned();
        match &noted.refusal {
            Some((Refusal::Tls, reason)) => Error::Tls { brokers, reason: reason.clone() },
            Some((Refusal::Authentication, reason)) => Error::Authentication {
                brokers,
                mechanism: config.mechanism().unwrap_or("none").to_owned(),
                reason: reason.clone(),
            },
            None => {
                let told = noted.reason.is_some();
                let mut reason = noted.reason.clone().unwrap_or_else(|| source.to_string());
                // A broker that wants TLS hangs up, of which librdkafka tells nothing. In TLS 1.3 it tells
                // only afterwards that it wanted a certificate, or another one, which librdkafka takes for a
                // transport failure.
                reason += match (config.uses_tls(), config.has_client_certificate()) {
                    (false, _) if told => "",
                    (false, _) => " (does it want TLS? see KafkaConfig::tls)",
                    (true, false) => {
                        " (does it want a client certificate? see KafkaConfig::client_certificate)"
                    }
                    (true, true) => {
                        " (is the client certificate still valid, and of an authority that the broker trusts?)"
                    }
                };
                Error::Unreachable { brokers, limit, reason, source: Box::new(source) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_decides_and_not_the_words() {
        let troubles = Troubles::default();
        let config = KafkaConfig::new("b:1", "g");
        let limit = Duration::from_secs(1);
        let down = || KafkaError::MetadataFetch(Code::BrokerTransportFailure);
        troubles
            .note(&KafkaError::Global(Code::BrokerTransportFailure), "SSL handshake: authentication failed");
        troubles.note(&KafkaError::Global(Code::AllBrokersDown), "1/1 brokers are down");
        let error = troubles.explain(&config, limit, down());
        assert!(
            matches!(&error, Error::Unreachable { reason, .. } if reason.contains("handshake")),
            "{error:?}"
        );

        troubles.note(&KafkaError::Global(Code::Authentication), "no");
        let error = troubles.explain(&config, limit, down());
        assert!(matches!(&error, Error::Authentication { reason, .. } if reason == "no"), "{error:?}");
        troubles.note(&KafkaError::Global(Code::SSL), "no");
        assert!(matches!(troubles.explain(&config, limit, down()), Error::Tls { .. }));
    }
}
