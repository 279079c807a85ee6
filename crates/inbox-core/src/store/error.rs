//! What can go wrong with the store, as its users see it.

use std::future::Future;
use std::time::Duration;

use diesel::result::Error as DieselError;

use crate::failure::{self, FailureClass};

use super::{Departed, OtherLog};

/// An error of the store's own statements or connections.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The address is wrong: nothing will help but another one.
    #[error("database address: {0}")]
    Address(String),
    /// No connection could be made.
    #[error("cannot connect to the database: {0}")]
    Connect(String),
    /// The server is up, and has no room for another connection.
    #[error("the database has no room for another connection: {0}")]
    NoRoom(String),
    /// The schema is missing or is not the one this version works with.
    #[error("{0}")]
    Schema(String),
    /// Another process has the database, which serves only one.
    #[error("{0}")]
    InUse(String),
    /// A subscription is not its consumer group's any more.
    #[error(transparent)]
    Departed(#[from] Departed),
    /// A partition's log is not the recorded one.
    #[error(transparent)]
    OtherLog(#[from] OtherLog),
    /// Another transaction holds what a statement of the inbox needs, for longer than the lock time-out.
    #[error("{0}")]
    Busy(String),
    /// A statement failed.
    #[error("database: {reason}")]
    Statement {
        /// Whose fault it is, as far as the driver says.
        class: FailureClass,
        /// What the database said.
        reason: String,
    },
}

impl StoreError {
    pub(crate) fn connect(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self::Connect(text)
    }

    /// Whose fault it is, as far as the driver says.
    pub(crate) fn class(&self) -> FailureClass {
        match self {
            Self::Statement { class, .. } => *class,
            Self::Busy(_) => FailureClass::Unclear,
            _ => FailureClass::Infrastructure,
        }
    }

    /// Whether the connection, and with it the outcome of a commit, is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.class() == FailureClass::Infrastructure
    }
}

impl From<DieselError> for StoreError {
    fn from(error: DieselError) -> Self {
        Self::Statement { class: failure::classify(&error), reason: error.to_string() }
    }
}

/// Connects for something that is done once, at a start: what this process has just closed may still take
/// up the server's room, or what an earlier one had.
pub(crate) async fn once_there_is_room<T, F>(mut connect: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    const TRIES: usize = 50;
    const WAIT: Duration = Duration::from_millis(100);
    for _ in 0..TRIES {
        match connect().await {
            Err(StoreError::NoRoom(_)) => tokio::time::sleep(WAIT).await,
            answer => return answer,
        }
    }
    connect().await
}

/// The work's result, or an error after this time: a server that is silent, or a network that
/// swallows everything, must not hold a lane or a partition for ever (P5). After it the connection
/// must be discarded.
pub(crate) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Connect(format!("no answer within {limit:?}"))),
    }
}
