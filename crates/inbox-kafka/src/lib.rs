//! Drives an inbox from Kafka.
//!
//! | module | what lives there |
//! |---|---|
//! | `client` | the client library's client: made, and closed within a limit |
//! | `config` | what people set, what would break a promise |
//! | `consume` | the future that users await |
//! | `preflight` | what is checked before the first record |
//! | `context` | librdkafka's callbacks, turned into events |
//! | `topics`, `describe` | which topics there are, and their ids |
//! | `session` | one client after the other, where the group asks for it |
//! | `poll` | the thread that polls: assignment, records, flushes, revokes |
//! | `stopped` | partitions that wait for a person |
//! | `tracker` | the watermark over delivered records (P2) |
//! | `tokens` | OAUTHBEARER's tokens, fetched ahead |
//! | `refusal` | why a broker cannot be reached |
//! | `convert` | from Kafka's message to a record |

mod client;
mod config;
mod consume;
mod context;
mod convert;
mod describe;
mod error;
mod firsts;
mod poll;
mod preflight;
mod refusal;
mod served;
mod session;
mod stopped;
mod tokens;
mod topics;
mod tracker;

pub use config::{
    ClientCertificate, ConfigError, GroupProtocol, IsolationLevel, KafkaConfig, OauthToken, Sasl,
};
pub use consume::{Consume, consume};
pub use error::Error;
pub use stopped::{StopReason, Stopped};
