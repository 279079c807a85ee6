//! Drives an inbox from Kafka.
//!
//! | module | what lives there |
//! |---|---|
//! | `config` | what people set, what would break a promise |
//! | `consume` | the future that users await |
//! | `preflight` | what is checked before the first record |
//! | `context` | librdkafka's callbacks, turned into events |
//! | `poll` | the thread that polls: assignment, records, flushes, revokes |
//! | `tracker` | the watermark over delivered records (P2) |
//! | `convert` | from Kafka's message to a record |

mod config;
mod consume;
mod context;
mod convert;
mod error;
mod firsts;
mod poll;
mod preflight;
mod tracker;

pub use config::{ConfigError, GroupProtocol, IsolationLevel, KafkaConfig, Sasl};
pub use consume::{Consume, consume};
pub use error::Error;
