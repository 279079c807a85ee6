//! What must not be shown: in a `Debug` output, in an error, in a log line.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// What stands where a secret was.
pub(super) const HIDDEN: &str = "…";

/// Whether a property's value must not be shown. A file's place and an address are no secrets; of what
/// is not known, what sounds like one is hidden.
pub(super) fn is_secret(property: &str) -> bool {
    const WORDS: &[&str] =
        &["password", "passphrase", "secret", "token", "key", "pem", "jaas", "oauthbearer.config"];
    const PLACES: &[&str] = &[".location", ".file", ".url"];
    let property = property.to_ascii_lowercase();
    WORDS.iter().any(|word| property.contains(word)) && !PLACES.iter().any(|place| property.ends_with(place))
}

/// The secrets of a configuration, to be hidden in what others say.
#[derive(Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn of(properties: &BTreeMap<String, String>) -> Self {
        let secret = |(name, value): &(&String, &String)| is_secret(name) && !value.is_empty();
        Self(properties.iter().filter(secret).map(|(_, value)| value.clone()).collect())
    }

    /// A text without them: librdkafka quotes values that it does not like.
    pub(crate) fn hidden_in<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.iter().fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), HIDDEN).into() } else { text }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_told_by_its_name() {
        for property in [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "SASL.Password",
        ] {
            assert!(is_secret(property), "{property}");
        }
        for property in [
            "sasl.username",
            "ssl.ca.location",
            "ssl.key.location",
            "sasl.oauthbearer.token.endpoint.url",
            "bootstrap.servers",
        ] {
            assert!(!is_secret(property), "{property}");
        }
    }

    #[test]
    fn secrets_are_hidden_in_what_others_say() {
        let properties = [("sasl.password", "hunter2"), ("ssl.key.password", ""), ("client.id", "inbox")];
        let secrets = Secrets::of(&properties.map(|(name, value)| (name.into(), value.into())).into());
        assert_eq!(secrets.hidden_in("hunter2 of inbox: hunter2"), "… of inbox: …");
        assert!(matches!(secrets.hidden_in("nothing of it"), Cow::Borrowed(_)));
    }
}
