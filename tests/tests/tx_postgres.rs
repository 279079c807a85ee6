//! What handlers work through on Postgres.

inbox_tests::tx_conformance!(inbox_core::Postgres);
