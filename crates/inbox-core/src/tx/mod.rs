//! The transaction a handler works in: plain diesel, but it cannot commit.

mod guard;
mod kept;
#[cfg(feature = "postgres")]
mod postgres;
mod savepoint;
mod sent;
#[cfg(feature = "sqlite")]
mod sqlite;
mod watch;

use std::sync::Arc;

pub(crate) use kept::KeptStatements;
#[cfg(feature = "postgres")]
pub(crate) use postgres::PgInner;
pub(crate) use savepoint::Inner;
pub use savepoint::Savepoint;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::SqliteInner;
pub(crate) use watch::{Seen, Watch};

use crate::store::Database;

/// Several statements in one text could end the transaction unseen.
const NO_BATCH_EXECUTE: &str =
    "a handler cannot use batch_execute: send each statement with diesel's execute";

/// An open transaction: hand it to diesel's `execute`, `load`, `get_result` and friends.
///
/// ```ignore
/// diesel::update(accounts::table.find(id)).set(accounts::cents.eq(accounts::cents + cents)).execute(tx).await?;
/// ```
///
/// - It cannot begin, commit or roll back: that is the inbox's to do. Statements whose first word is
///   transaction control, SET, RESET, DISCARD, PREPARE, DEALLOCATE or EXECUTE are refused (on `SQLite`
///   also PRAGMA, ATTACH, DETACH and VACUUM), and so is `batch_execute`. A refused statement fails
///   the attempt.
/// - It sees every error of a statement and of a row stream: an error that the handler swallows
///   fails the attempt all the same, and what is sent after it is refused. To go on after an error,
///   put the statement between [`Tx::savepoint`] and [`Tx::rollback_to`].
/// - On `SQLite` a statement runs to its end on another thread: one that is dropped before its
///   answer came (by a `select!` or time-out of the handler's own) fails the attempt.
/// - Statements are prepared once per connection, by their text.
///
/// Handlers of one batch share the connection as long as each sends one statement. The first second
/// statement, or savepoint, makes the subscription run its handlers one after the other from then
/// on; the handler itself notices nothing.
pub struct Tx<'a, Db: Database> {
    inner: Db::Inner<'a>,
    watch: Arc<Watch>,
}

impl<'a, Db: Database> Tx<'a, Db> {
    pub(crate) fn new(inner: Db::Inner<'a>, watch: Arc<Watch>) -> Self {
        Self { inner, watch }
    }

    /// How many statements were sent through this `Tx`.
    pub fn statements(&self) -> u32 {
        self.watch.statements()
    }
}
