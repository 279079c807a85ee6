//! The store's conformance suite on Postgres.

inbox_tests::store_conformance!(inbox_core::Postgres);
