//! The store's conformance suite on `SQLite`, and what only `SQLite` has: a file that one process uses.

inbox_tests::store_conformance!(inbox_core::Sqlite);
