//! What handlers work through on `SQLite`.

inbox_tests::tx_conformance!(inbox_core::Sqlite);
