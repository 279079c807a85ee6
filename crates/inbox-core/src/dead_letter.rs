//! A row that will not be tried again without a person or a replay.

use std::fmt;
use std::time::Duration;

use crate::identity::{BusinessKey, MessageId, SubscriptionId};
use crate::record::Record;
use crate::store::Fence;
use crate::stored;

/// Why a message became a dead letter. The names are stored: a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadClass {
    /// Its handler said that trying again cannot help.
    Permanent,
    /// It failed as often, or for as long, as its subscription tries.
    Exhausted,
    /// Its value could not be decoded.
    Undecodable,
    /// It has no usable message id.
    NoId,
    /// It lacks the payload field that is its business key.
    NoKey,
    /// It is larger than the inbox accepts.
    Oversized,
    /// Its timestamp lies further in the future than the inbox accepts.
    FutureDated,
    /// Its row could not be written although the database was healthy, three times.
    Unstorable,
    /// The connection was lost while it ran alone although the database was healthy, three times.
    Crashed,
}

impl DeadClass {
    /// Every class.
    pub const ALL: [Self; 9] = [
        Self::Permanent,
        Self::Exhausted,
        Self::Undecodable,
        Self::NoId,
        Self::NoKey,
        Self::Oversized,
        Self::FutureDated,
        Self::Unstorable,
        Self::Crashed,
    ];

    /// The class's name in rows, logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Exhausted => "exhausted",
            Self::Undecodable => "undecodable",
            Self::NoId => "no_id",
            Self::NoKey => "no_key",
            Self::Oversized => "oversized",
            Self::FutureDated => "future_dated",
            Self::Unstorable => "unstorable",
            Self::Crashed => "crashed",
        }
    }
}

impl fmt::Display for DeadClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a dead letter frees its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDead {
    /// Later messages of its key go on (the default). One that is replayed runs after what has run since.
    #[default]
    Release,
    /// Later messages of its key wait, across restarts and rebalances, until a person acts. Of a message
    /// without a key nothing waits.
    Block,
}

/// A message to bury: what the store keeps of it.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// The ownership under which it is buried.
    pub fence: Fence,
    /// Its id.
    pub id: MessageId,
    /// Its business key, if one was found.
    pub key: Option<BusinessKey>,
    /// Why.
    pub class: DeadClass,
    /// Why, for a person.
    pub reason: String,
    /// How often its handler was tried.
    pub attempts: u32,
    /// The original record.
    pub record: Record,
    /// How long ago its first attempt began, if there was one.
    pub since_first: Option<Duration>,
    /// Whether later messages of its key wait until a person acts.
    pub blocks: bool,
    /// False where not even the bytes could be stored: the row then only names the place in Kafka.
    pub with_bytes: bool,
}

impl DeadLetter {
    /// The reason as text that any database stores: without NUL, of bounded length.
    #[must_use]
    pub fn stored_reason(&self) -> String {
        stored::reason(&self.reason)
    }

    /// The headers as they are stored: a JSON array of `[name, base64 of the value or null]`.
    #[must_use]
    pub fn stored_headers(&self) -> Vec<u8> {
        stored::encode_headers(&self.record.headers)
    }
}
