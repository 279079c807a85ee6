//! Properties from environment variables.

use std::ffi::OsString;

use super::{ConfigError, KafkaConfig};

const PREFIX: &str = "INBOX_KAFKA_";

pub(super) fn from_variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<KafkaConfig, ConfigError> {
    let mut config = KafkaConfig::default();
    for (name, value) in variables {
        let Some(name) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let property = name.to_ascii_lowercase().replace('_', ".");
        let value =
            value.into_string().map_err(|_| ConfigError::new(&property, "its variable is not UTF-8"))?;
        config = config.property(property, value);
    }
    for (property, variable) in [("bootstrap.servers", "BOOTSTRAP_SERVERS"), ("group.id", "GROUP_ID")] {
        if config.get(property).is_none() {
            return Err(ConfigError::new(
                property,
                format!("it is not set: set the variable {PREFIX}{variable}"),
            ));
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<KafkaConfig, ConfigError> {
        from_variables(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn each_variable_with_the_prefix_is_a_property() {
        let config = read(&[
            ("INBOX_KAFKA_BOOTSTRAP_SERVERS", "broker:9092"),
            ("INBOX_KAFKA_GROUP_ID", "payments"),
            ("INBOX_KAFKA_SASL_PASSWORD", "hunter2"),
            ("KAFKA_HOME", "/opt/kafka"),
        ])
        .expect("complete");
        assert_eq!((config.brokers(), config.group()), ("broker:9092", "payments"));
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = read(&[("INBOX_KAFKA_BOOTSTRAP_SERVERS", "b:1")]).expect_err("no group");
        assert!(error.to_string().contains("INBOX_KAFKA_GROUP_ID"), "{error}");
    }
}
