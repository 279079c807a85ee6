//! Support for the tests against real databases, and the suite that every database passes.
//!
//! | module | what lives there |
//! |---|---|
//! | `dialect` | what a test needs of a database, beyond what the inbox does |
//! | `postgres`, `sqlite` | a database of its own for each test, gone when the test ends |
//! | `scene` | a migrated database with a subscription and a partition of ours |
//! | `script` | a handler that does what a message tells it |
//! | `conformance` | one file per transition, generic over the database |
//!
//! A test never ends early because something is missing: it panics and says what to start.

// A test that panics has failed: that is what its documentation says already.
#![allow(clippy::missing_panics_doc)]

pub mod conformance;
pub mod dialect;
pub mod postgres;
pub mod scene;
pub mod script;
pub mod sqlite;
