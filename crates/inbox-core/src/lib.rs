//! The meaning of the inbox: each message's effect happens once, in order per business key.
//!
//! This crate never names Kafka's client library. The map:
//!
//! | module | what lives there |
//! |---|---|
//! | `identity`, `record`, `message`, `cloud_event` | what a message is |
//! | `subscription`, `handler` | what users write |
//! | `failure`, `retry`, `dead_letter`, `stored` | what can go wrong with a message, what follows, and what is kept of it |
//! | `tx` | the transaction a handler works in |
//! | `store` | one durable transition per file, for Postgres and `SQLite` |
//! | `process` | one attempt |
//! | `lanes` | batches, isolation, blame, backoff, outage |
//! | `inbox` | the builder, its settings, the engine a transport drives |

// Without a database there is nobody to use the parts.
#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, unreachable_pub, unused_imports)
)]

extern crate self as inbox_core;

mod cloud_event;
mod dead_letter;
mod failure;
mod field_value;
mod handler;
mod identity;
pub mod inbox;
mod lanes;
mod message;
pub mod process;
mod record;
mod retry;
mod short;
pub mod store;
mod stored;
mod subscription;
mod tx;

pub use cloud_event::{CloudEvent, NotAnEvent};
pub use dead_letter::{DeadClass, DeadLetter, OnDead};
pub use failure::{Failure, FailureClass, Outcome};
pub use field_value::FieldValue;
pub use handler::{BatchHandler, Handler};
pub use identity::{
    BusinessKey, Epoch, KeyId, MessageId, Offset, Partition, PartitionId, Place, StartToken, StoredId,
    SubscriptionId, SubscriptionName, Topic,
};
pub use inbox::{Inbox, OnRestore, Settings, StartError};
#[doc(inline)]
pub use inbox_macros::Subscription;
pub use message::{Message, TraceContext};
pub use record::{Headers, Record, Timestamp};
pub use retry::RetryPolicy;
#[cfg(feature = "postgres")]
pub use store::postgres::{Postgres, PostgresStore};
#[cfg(feature = "sqlite")]
pub use store::sqlite::{Sqlite, SqliteStore};
pub use store::{Database, Store, StoreError};
pub use subscription::{
    Codec, DecodeError, Definition, DefinitionError, IdRule, Json, KeyRule, Payload, Start, Subscription,
    Tombstones, Topics,
};
pub use tx::{Savepoint, Tx};
