//! Start: the head of a key is given a token, and read, before it runs.

use std::time::Duration;

use crate::failure::FailureClass;
use crate::identity::{BusinessKey, KeyId, MessageId, Offset, StartToken, StoredId, SubscriptionId};
use crate::record::{Headers, Timestamp};
use crate::stored;

use super::{Fence, StoreError};

/// The key whose head is to be started.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// The ownership under which it is started.
    pub fence: Fence,
    /// The key.
    pub key: KeyId,
    /// The token of the start.
    pub token: StartToken,
}

/// What the key's head is.
#[derive(Debug)]
pub enum Head {
    /// Started: it runs under the token until it has ended.
    Started(Box<OpenRow>),
    /// Parked: due in this time.
    NotDue(Duration),
    /// A dead letter that blocks its key until a person acts.
    Blocked,
    /// The key has no open row, and no letter that blocks it.
    None,
    /// The partition belongs to another epoch.
    Fenced,
}

/// An open row with its bytes.
#[derive(Clone, Debug)]
pub struct OpenRow {
    /// Its id.
    pub id: MessageId,
    /// The id under which the row is stored.
    pub stored_id: StoredId,
    /// Its business key.
    pub key: Option<BusinessKey>,
    /// Its offset.
    pub offset: Offset,
    /// 32 bits of its payload's hash.
    pub fingerprint: i32,
    /// The record's timestamp.
    pub timestamp: Option<Timestamp>,
    /// The record's key.
    pub record_key: Option<Vec<u8>>,
    /// The record's value.
    pub value: Option<Vec<u8>>,
    /// The record's headers.
    pub headers: Headers,
    /// Attempts counted so far; none for one that has only waited.
    pub attempts: u32,
    /// How long ago the first attempt began.
    pub since_first: Option<Duration>,
}

/// A key that has open rows, or a letter that blocks it: what is loaded at a take-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenKey {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// The key.
    pub key: KeyId,
    /// The key's bytes; nothing for a message without a key.
    pub business_key: Option<BusinessKey>,
    /// The offset of its head.
    pub offset: Offset,
    /// When its head is due: at once, later, or, while a letter blocks it, never by itself.
    pub due_in: Option<Duration>,
}

/// An open row that was started, for what ends it.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// The ownership.
    pub fence: Fence,
    /// Its id.
    pub id: StoredId,
    /// The token of its start.
    pub token: StartToken,
}

/// What became of a transition of a started row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It was made.
    Done,
    /// The row is not open any more, or was started by somebody else: nothing was written.
    Gone,
    /// The partition belongs to another epoch: nothing was written.
    Fenced,
}

/// What rows have as bytes, read back.
pub(crate) fn read_bytes(id: Vec<u8>, headers: Option<&[u8]>) -> Result<(MessageId, Headers), StoreError> {
    let id = String::from_utf8(id).ok().map(MessageId::new);
    let headers = headers.map_or_else(|| Some(Headers::default()), stored::decode_headers);
    id.zip(headers).ok_or_else(|| StoreError::Statement {
        class: FailureClass::Conflict,
        reason: "an open row has an id or headers that this version did not write".into(),
    })
}
