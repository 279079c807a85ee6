//! What is durable. One interface, [`Database`]; one transition per file; dialects for what differs.
//!
//! | file | transition or question |
//! |---|---|
//! | `register` | a subscription is recorded with its group and rules |
//! | `take_over` | a partition gets a new epoch; its watermarks and keys with open rows are read |
//! | `admit` | (none) → done: processed, inside the effect's transaction |
//! | `commit` | the proof before COMMIT, and COMMIT |
//! | `park` | (none) → open |
//! | `start` | the head of a key gets a token before it runs |
//! | `finish` | open → done: processed, inside the effect's transaction |
//! | `postpone` | open: an attempt failed, and the next one is due later |
//! | `bury` | (none) → dead |
//! | `bury_open` | open → dead |
//! | `flush` | the watermark and its number |
//! | `accept_log` | another log is consumed: a new incarnation |
//! | `probe` | is the database up |
//! | `move_subscription` | a subscription goes on in another consumer group |
//! | `remove` | a subscription is forgotten |
//! | `migrate` | numbered schema changes |

mod accept_log;
mod admit;
mod clock;
mod error;
mod flush;
mod kept;
mod limits;
mod migrate;
mod move_subscription;
mod park;
#[cfg(feature = "postgres")]
pub mod postgres;
mod prepared;
mod register;
mod remove;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod start;
mod take_over;

use std::future::Future;

pub use accept_log::{AcceptLog, LogStart};
pub use admit::{Admission, Admit, Admitted, Conflict, RowState};
pub use error::StoreError;
pub(crate) use error::{once_there_is_room, within};
pub use flush::{Flush, FlushWatermark, Flushed, LastRecord};
pub use kept::Written;
pub use limits::TransactionLimits;
pub use migrate::{Migration, MigrationStatus};
pub use move_subscription::{MoveError, Moved};
pub use park::{Failed, Park};
pub(crate) use prepared::Prepared;
pub use register::{First, RegisterError, Registration};
pub use remove::{OnUnfinished, RemoveError, Removed};
pub use start::{Head, OpenKey, OpenRow, Start, Started, Transition};
pub(crate) use take_over::Standing;
pub use take_over::{Departed, Log, OtherLog, TakeOver, TakenOver};

use crate::dead_letter::DeadLetter;
use crate::handler::{BatchHandler, Handler};
use crate::identity::{Epoch, Partition, PartitionId, SubscriptionId};
use crate::message::Message;
use crate::process::{self, Attempt, AttemptEnd};

/// The authority of a transaction over a partition: its number, and the epoch that must still be
/// the partition's when the transaction looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The partition.
    pub partition: PartitionId,
    /// The token of the ownership.
    pub epoch: Epoch,
}

/// A store that an inbox can be made of: it names its [`Database`].
pub trait Store: Clone + Send + Sync + 'static {
    /// The database it speaks to.
    type Db: Database<Store = Self>;
}

/// A kind of database: connections, the transactions handlers run in, and the durable transitions.
///
/// Implemented by [`postgres::Postgres`] and [`sqlite::Sqlite`]; not meant to be implemented
/// elsewhere, its methods change with the inbox.
///
/// Every method that takes a connection leaves it without an open transaction, except `admit` when
/// it answers `Ok(Admitted::Open(_))`, and `finish` when it answers `Ok(Transition::Done)`. After an `Err` or
/// a dropped future the connection must be [discarded](Self::discard).
pub trait Database: Sized + Send + Sync + 'static {
    /// What knows how to connect.
    type Store: Store<Db = Self>;
    /// One connection.
    type Conn: Send + 'static;
    /// What a [`Tx`](crate::Tx) wraps.
    type Inner<'a>: crate::tx::Inner;

    /// Its name in logs.
    const NAME: &'static str;
    /// Whether handlers of one batch may share the connection at the same time.
    const PIPELINES: bool;

    /// Opens a connection.
    fn connect(store: &Self::Store) -> impl Future<Output = Result<Self::Conn, StoreError>> + Send;

    /// Ends whatever the connection is doing, then closes it. Never fails: there is nothing left
    /// to lose.
    fn discard(conn: Self::Conn) -> impl Future<Output = ()> + Send;

    /// Begins a transaction, checks the fence and admits the messages, in one round trip.
    fn admit<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        admission: &'a Admission,
    ) -> impl Future<Output = Result<Admitted, StoreError>> + Send + 'a;

    /// What handlers work through, in the open transaction.
    fn inner(conn: &mut Self::Conn) -> Self::Inner<'_>;

    /// Runs a handler for each of these messages in the open transaction, one after the other; in
    /// chains, if the attempt says so and this database [can](Self::PIPELINES).
    fn handle_each<'a, H: Handler<Self>>(
        conn: &'a mut Self::Conn,
        handler: &'a H,
        messages: &'a [&'a Message<H::Payload>],
        attempt: &'a Attempt<'a>,
    ) -> impl Future<Output = AttemptEnd> + Send + 'a {
        process::in_sequence(conn, handler, messages, attempt)
    }

    /// Runs a batch handler for all of these messages in the open transaction.
    fn handle_all<'a, H: BatchHandler<Self>>(
        conn: &'a mut Self::Conn,
        handler: &'a H,
        messages: &'a [&'a Message<H::Payload>],
        attempt: &'a Attempt<'a>,
    ) -> impl Future<Output = AttemptEnd> + Send + 'a {
        process::all_at_once(conn, handler, messages, attempt)
    }

    /// Proves that the transaction is still alive, and commits it. After an error its outcome is
    /// unknown if the connection was lost, and nothing happened otherwise.
    fn commit(conn: &mut Self::Conn) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Rolls the open transaction back.
    fn rollback(conn: &mut Self::Conn) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// (none) → dead, in a transaction of its own.
    fn bury<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        letters: &'a [DeadLetter],
    ) -> impl Future<Output = Result<Written, StoreError>> + Send + 'a;

    /// (none) → open, in a transaction of its own.
    fn park<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        messages: &'a [Park],
    ) -> impl Future<Output = Result<Written, StoreError>> + Send + 'a;

    /// Gives the head of a key a token, if it is due, and reads it; in a transaction of its own.
    fn start<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        start: &'a Start,
    ) -> impl Future<Output = Result<Head, StoreError>> + Send + 'a;

    /// Begins a transaction, checks the fence, and makes the started row a receipt. Leaves the transaction
    /// open if it answers `Ok(Transition::Done)`.
    fn finish<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        row: &'a Started,
    ) -> impl Future<Output = Result<Transition, StoreError>> + Send + 'a;

    /// The attempt of a started row failed: it waits for the next one. In a transaction of its own.
    fn postpone<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        row: &'a Started,
        failed: &'a Failed,
    ) -> impl Future<Output = Result<Transition, StoreError>> + Send + 'a;

    /// Open → dead, of a started row, in a transaction of its own.
    fn bury_open<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        row: &'a Started,
        letter: &'a DeadLetter,
    ) -> impl Future<Output = Result<Transition, StoreError>> + Send + 'a;

    /// Records subscriptions with their group and rules, or finds them recorded so.
    fn register<'a>(
        conn: &'a mut Self::Conn,
        group: &'a str,
        subscriptions: &'a [Registration],
    ) -> impl Future<Output = Result<Vec<SubscriptionId>, RegisterError>> + Send + 'a;

    /// Gives a partition a new epoch, after whoever holds the old one has ended its transactions.
    fn take_over<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        partition: &'a TakeOver,
    ) -> impl Future<Output = Result<TakenOver, StoreError>> + Send + 'a;

    /// Writes watermarks and raises their flush numbers, each only where epoch and number are the
    /// expected ones.
    fn flush<'a>(
        conn: &'a mut Self::Conn,
        limits: &'a TransactionLimits,
        flushes: &'a [Flush],
    ) -> impl Future<Output = Result<Vec<Flushed>, StoreError>> + Send + 'a;

    /// Gives partitions whose log is another one a new incarnation. Returns them, sorted.
    fn accept_log<'a>(
        conn: &'a mut Self::Conn,
        asked: &'a AcceptLog,
    ) -> impl Future<Output = Result<Vec<Partition>, StoreError>> + Send + 'a;

    /// Succeeds if the database answers and can write a row of the inbox.
    fn probe(store: &Self::Store) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The same through this connection, which has no open transaction.
    fn probe_through(conn: &mut Self::Conn) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Fails unless the schema is the one this version works with.
    fn check_schema(store: &Self::Store) -> impl Future<Output = Result<(), StoreError>> + Send;
}
