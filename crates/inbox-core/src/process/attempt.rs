//! How handlers are to be run, and how it ended.

use std::time::Duration;

use crate::failure::Failure;

/// How the handlers of a batch are to be run.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// How long one call of the handler may take. Pipelined, all calls of the batch together.
    pub time_limit: Duration,
    /// The chains to pipeline on the connection; `None` runs the messages one after the other.
    pub chains: Option<&'a [Chain]>,
}

/// Indices of messages of one business key, in their order: they run one after the other.
pub type Chain = Vec<usize>;

/// How the handlers of a batch ended. Anything but `Done` rolls the transaction back.
#[derive(Debug)]
pub enum AttemptEnd {
    /// Each returned `Ok`, and no error was seen.
    Done,
    /// One failed.
    Failed {
        /// Which message, where it is known. With others in the same transaction it is a hint.
        index: Option<usize>,
        /// How.
        failure: Failure,
        /// The database's part in it was seen, and is not clearly the message's fault.
        suspect_database: bool,
    },
    /// One panicked.
    Panicked {
        /// Which message, where it is known.
        index: Option<usize>,
        /// What the panic said.
        reason: String,
    },
    /// One did not end within its time limit, or all did not while pipelined.
    TimedOut {
        /// Which message, where it is known.
        index: Option<usize>,
    },
    /// A handler sent a second statement where only one may be sent.
    SecondStatement {
        /// Its SQL, without values.
        sql: String,
    },
}

impl AttemptEnd {
    /// The same end, of this message.
    pub(crate) fn at(self, index: usize) -> Self {
        match self {
            Self::Panicked { reason, .. } => Self::Panicked { index: Some(index), reason },
            Self::TimedOut { .. } => Self::TimedOut { index: Some(index) },
            other => other,
        }
    }

    /// Whether the connection is in an unknown state: it must be discarded.
    pub(crate) fn spoils_connection(&self) -> bool {
        matches!(self, Self::Panicked { .. } | Self::TimedOut { .. })
    }

    pub(crate) fn index(&self) -> Option<usize> {
        match self {
            Self::Failed { index, .. } | Self::Panicked { index, .. } | Self::TimedOut { index } => *index,
            Self::Done | Self::SecondStatement { .. } => None,
        }
    }
}
