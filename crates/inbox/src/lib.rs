//! A consumer-side inbox for Kafka: each message takes effect once, in order per business key.
//!
//! This crate is the one to depend on: everything of `inbox-core` at its root, and `inbox-kafka` as
//! [`kafka`].

pub use inbox_core::*;
#[doc(inline)]
pub use inbox_kafka as kafka;

/// The examples of the README are compiled with the doc tests.
#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../../README.md")]
struct ReadmeDoctests;

/// And those of the documentation.
#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../../docs/security.md")]
struct SecurityDoctests;
