//! What is checked about TLS and SASL before librdkafka sees it, since of much it only says that it
//! does not know it.

use std::fs::File;

use super::{ConfigError, KafkaConfig};

/// What this build can do.
#[derive(Clone, Copy)]
struct Build {
    ssl: bool,
    gssapi: bool,
}

const THIS: Build = Build { ssl: cfg!(feature = "ssl"), gssapi: cfg!(feature = "gssapi") };

const PROTOCOL: &str = "security.protocol";
const CERTIFICATE: &str = "ssl.certificate.location";
const KEY: &str = "ssl.key.location";

impl KafkaConfig {
    pub(super) fn check_security(&self) -> Result<(), ConfigError> {
        self.check_build(THIS)?;
        self.check_mechanism()?;
        for property in [CERTIFICATE, KEY, "ssl.ca.location"] {
            match self.get(property) {
                // librdkafka's word for "look in the usual places".
                None | Some("probe" | "") => {}
                Some(file) => drop(File::open(file).map_err(|error| {
                    ConfigError::new(property, format!("{file} cannot be read: {error}: name a PEM file"))
                })?),
            }
        }
        for (one, other, also) in
            [(CERTIFICATE, KEY, "ssl.key.pem"), (KEY, CERTIFICATE, "ssl.certificate.pem")]
        {
            if self.get(one).is_some() && self.get(other).is_none() && self.get(also).is_none() {
                return Err(ConfigError::new(one, format!("without {other} it is of no use: give both")));
            }
        }
        Ok(())
    }

    /// `sasl.mechanisms` is librdkafka's other name for it.
    pub(crate) fn mechanism(&self) -> Option<&str> {
        self.get("sasl.mechanism").or_else(|| self.get("sasl.mechanisms"))
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.get(PROTOCOL).is_some_and(|protocol| protocol.to_ascii_uppercase().ends_with("SSL"))
    }

    pub(crate) fn uses_sasl(&self) -> bool {
        self.get(PROTOCOL).is_some_and(|protocol| protocol.to_ascii_uppercase().starts_with("SASL"))
    }

    pub(crate) fn has_client_certificate(&self) -> bool {
        [CERTIFICATE, "ssl.certificate.pem", "ssl.keystore.location"]
            .iter()
            .any(|each| self.get(each).is_some())
    }

    fn check_build(&self, build: Build) -> Result<(), ConfigError> {
        let needs = |property: &str, feature| {
            Err(ConfigError::new(
                property,
                format!(
                    "it needs the feature `{feature}`, without which this program was built: write features = \
                     [\"{feature}\"] at the dependency `inbox` (or `inbox-kafka`) in Cargo.toml"
                ),
            ))
        };
        if !build.ssl {
            if self.uses_tls() {
                return needs(PROTOCOL, "ssl");
            }
            if let Some(property) = self.properties.keys().find(|property| property.starts_with("ssl.")) {
                return needs(property, "ssl");
            }
            if self.uses_sasl() && self.mechanism().is_some_and(|name| name != "PLAIN" && name != "GSSAPI") {
                return needs("sasl.mechanism", "ssl");
            }
        }
        // It is librdkafka's default too.
        if !build.gssapi && self.uses_sasl() && self.mechanism().is_none_or(|name| name == "GSSAPI") {
            return needs("sasl.mechanism", "gssapi");
        }
        Ok(())
    }

    fn check_mechanism(&self) -> Result<(), ConfigError> {
        if !self.uses_sasl() {
            return Ok(());
        }
        let is_oidc =
            self.get("sasl.oauthbearer.method").is_some_and(|method| method.eq_ignore_ascii_case("oidc"));
        let problem = match (self.mechanism(), self.token_source.is_some()) {
            (Some("OAUTHBEARER"), false) if !is_oidc => {
                "OAUTHBEARER needs tokens: give them with KafkaConfig::oauth".to_owned()
            }
            (Some("OAUTHBEARER"), _)
            | (None | Some("PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512" | "GSSAPI"), false) => return Ok(()),
            (other, true) => format!(
                "{} takes no tokens, but KafkaConfig::oauth gave some: leave one of them out",
                other.unwrap_or("GSSAPI")
            ),
            (other, false) => format!(
                "{} is unknown: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI, or KafkaConfig::oauth",
                other.unwrap_or_default()
            ),
        };
        Err(ConfigError::new("sasl.mechanism", problem))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{ClientCertificate, OauthToken, Sasl};

    fn config() -> KafkaConfig {
        KafkaConfig::new("broker:9093", "payments")
    }

    fn with_tokens(config: KafkaConfig) -> KafkaConfig {
        config.oauth(async || Ok::<_, ConfigError>(OauthToken::new("t", "p", Duration::from_mins(1))))
    }

    #[test]
    fn a_build_without_tls_names_the_feature() {
        let bare = Build { ssl: false, gssapi: false };
        let scram = || Sasl::new("SCRAM-SHA-512", "u", "p");
        for config in [
            config().tls(None),
            config().property("ssl.ca.location", "/ca.pem"),
            config().sasl(scram()),
            with_tokens(config()),
        ] {
            let error = config.check_build(bare).expect_err("not built in").to_string();
            assert!(error.contains("features = [\"ssl\"]"), "{error}");
        }
        assert!(config().sasl(Sasl::new("PLAIN", "u", "p")).check_build(bare).is_ok());
        let error = config().sasl(Sasl::new("GSSAPI", "u", "p")).check_build(bare).expect_err("not built in");
        assert!(error.to_string().contains("features = [\"gssapi\"]"), "{error}");
        assert!(config().tls(None).sasl(scram()).check_build(Build { ssl: true, gssapi: false }).is_ok());
    }

    #[test]
    fn a_mechanism_and_what_it_needs_fit() {
        for (config, word) in [
            (config().sasl(Sasl::new("SCRAM-SHA-1", "u", "p")), "SCRAM-SHA-256"),
            (config().sasl(Sasl::new("OAUTHBEARER", "u", "p")), "KafkaConfig::oauth"),
            (with_tokens(config()).property("sasl.mechanism", "PLAIN"), "leave one of them out"),
        ] {
            let error = config.check_mechanism().expect_err("they do not fit");
            assert!(error.to_string().contains(word), "{error}");
        }
        // The last word counts.
        assert!(with_tokens(config().sasl(Sasl::new("PLAIN", "u", "p"))).check_mechanism().is_ok());
        assert!(with_tokens(config()).sasl(Sasl::new("PLAIN", "u", "p")).check_mechanism().is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        for (config, property) in [
            (config().tls(Some("/nowhere/ca.pem".as_ref())), "ssl.ca.location"),
            (config().client_certificate(ClientCertificate::new("/nowhere/c", "/nowhere/k")), CERTIFICATE),
        ] {
            let error = config.check_security().expect_err("nothing is there");
            assert_eq!(error.property, property);
            assert!(error.problem.contains("/nowhere/"), "{error}");
        }
        let half = config().property(CERTIFICATE, concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert_eq!(half.check_security().expect_err("no key").property, CERTIFICATE);
    }
}
