//! Support for the tests against real databases and a real Kafka, and the suite that every database
//! passes.
//!
//! | module | what lives there |
//! |---|---|
//! | `dialect` | what a test needs of a database, beyond what the inbox does |
//! | `postgres`, `sqlite` | a database of its own for each test, gone when the test ends |
//! | `scene` | a migrated database with a subscription and a partition of ours |
//! | `script` | a handler that does what a message tells it |
//! | `plain_diesel` | a handler as users write them |
//! | `conformance` | one file per transition, generic over the database |
//! | `kafka` | a topic of its own for each test; records, offsets and members |
//! | `job` | messages that say what their handler does, and that handler |
//! | `handlers` | handlers that do more than a job can say |
//! | `wire` | records that no client library sends |
//! | `load` | records sent on purpose, and all the time |
//! | `service` | what a service is made of, and one inside the test |
//! | `worker` | the same as a process, to be killed and stopped |
//! | `member` | such a process with its own way to the database, for chaos |
//! | `oracle` | the ledger of effects: none lost, none doubled, in order |
//! | `proxy` | a wire to Postgres that can be cut |
//! | `secure` | listeners with TLS and SASL, and an identity provider |
//! | `pgbouncer` | a pooler in transaction mode |
//! | `replica` | a second Postgres that follows the first until it is cut off and promoted |
//! | `own_services` | a Postgres or a Kafka of one test's own, to be crashed |
//! | `wait` | waiting for what must come, and no longer |
//!
//! A test never ends early because something is missing: it panics and says what to start.

// A test that panics has failed: that is what its documentation says already.
#![allow(clippy::missing_panics_doc)]

pub mod conformance;
pub mod dialect;
pub mod handlers;
pub mod job;
pub mod kafka;
pub mod load;
pub mod member;
pub mod oracle;
pub mod own_services;
pub mod pgbouncer;
mod plain_diesel;
pub mod postgres;
pub mod proxy;
pub mod replica;
pub mod scene;
pub mod script;
pub mod secure;
pub mod service;
pub mod sqlite;
pub mod tls;
pub mod wait;
pub mod wire;
pub mod worker;
