//! Identity is a type: what names a message, a key, a place in Kafka or an owner is a newtype, so
//! that one cannot be written where another belongs.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::short::{ShortBytes, ShortText};

/// Names the logical operation; made by the sender; the dedup key within a subscription.
///
/// The database stores 128 bits of it, see [`MessageId::stored`].
#[derive(Clone)]
pub struct MessageId(ShortText);

impl MessageId {
    /// An id as its sender wrote it. Any text is accepted, of any length, also with NUL bytes.
    pub fn new<'a>(id: impl Into<Cow<'a, str>>) -> Self {
        Self(id.into().into())
    }

    /// The id of a record that has none of its own: its place in Kafka, with the cluster and the
    /// topic's incarnation, so that a recreated topic is never taken for the old one.
    #[must_use]
    pub fn of_offset(place: &Place, cluster: &str, incarnation: i32) -> Self {
        let Place { topic, partition, offset } = place;
        Self::new(format!("offset:{cluster}/{topic}/{incarnation}/{partition}/{offset}"))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 128 bits under which the database knows this id.
    ///
    /// A UUID in its hyphenated form (36 characters, either case) is stored as it is; any other id
    /// as the first 128 bits of its blake3 hash.
    #[must_use]
    pub fn stored(&self) -> StoredId {
        StoredId::of(self.0.as_bytes())
    }
}

impl PartialEq for MessageId {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for MessageId {}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({:?})", &*self.0)
    }
}

/// A message id as the database stores it: 128 bits, compared and sorted as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoredId(Uuid);

impl StoredId {
    fn of(id: &[u8]) -> Self {
        let hyphenated = if id.len() == 36 { Uuid::try_parse_ascii(id).ok() } else { None };
        Self(hyphenated.unwrap_or_else(|| first_bits(&blake3::hash(id))))
    }

    /// As the `uuid` value that the store writes.
    #[must_use]
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }

    /// From the `uuid` value that the store read.
    #[must_use]
    pub fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Debug for StoredId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredId({})", self.0)
    }
}

/// Messages with the same one, in one subscription and partition, are handled in order, one at a
/// time. Any bytes: a key is compared, never read.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BusinessKey(ShortBytes);

impl BusinessKey {
    /// A key of these bytes, copied.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        Self(ShortBytes::copied(key))
    }

    /// A key of these bytes, shared.
    #[must_use]
    pub fn shared(key: Bytes) -> Self {
        Self(ShortBytes::shared(key))
    }

    /// The key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text, with what is not UTF-8 replaced.
    #[must_use]
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl fmt::Debug for BusinessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BusinessKey({:?})", self.to_str_lossy())
    }
}

/// A handler's durable name: the scope of dedup.
///
/// **A contract**: it is stored with every row. Renaming it makes a new subscription that sees
/// every message again.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionName(Arc<str>);

impl SubscriptionName {
    /// The longest name accepted, in bytes.
    pub const MAX_LEN: usize = 200;

    /// A name; whether it is a good one is checked when the inbox starts.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is wrong with this name, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        let name = &*self.0;
        if name.is_empty() {
            return Some("a subscription's name is empty: give it a durable one".into());
        }
        if name.len() > Self::MAX_LEN {
            return Some(format!(
                "the subscription name is {} bytes long: {} at most",
                name.len(),
                Self::MAX_LEN
            ));
        }
        let odd = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-:/".contains(*c)))?;
        Some(format!(
            "the subscription name {name:?} has {odd:?} in it: use ASCII letters, digits and any of . _ - : /"
        ))
    }
}

impl fmt::Display for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubscriptionName({:?})", &*self.0)
    }
}

/// A Kafka topic's name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(Arc<str>);

impl Topic {
    /// A topic of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topic({:?})", &*self.0)
    }
}

/// A partition's number within its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(pub i32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record's offset within its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offset(pub i64);

impl Offset {
    /// The offset after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where in Kafka a record is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The topic.
    pub topic: Topic,
    /// The partition.
    pub partition: Partition,
    /// The offset.
    pub offset: Offset,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.topic, self.partition, self.offset)
    }
}

/// The random token of a partition's ownership, new at each assignment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(Uuid);

impl Epoch {
    /// A new random token.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// As the `uuid` value that the store writes.
    #[must_use]
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.0)
    }
}

/// What tells business keys apart in the store, within a subscription and partition: 128 bits, as keys have
/// any length. A message without a key is one of its own.
///
/// **A contract**: it is stored with open and dead rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(Uuid);

impl KeyId {
    /// That of a message with this key and id.
    ///
    /// The first 128 bits of a blake3 hash, of different things for keys and ids: no id that a sender makes up
    /// is another message's key. Unlike with ids, a UUID is bytes like any other: keys that differ by case only
    /// are two, and two lanes handle them.
    #[must_use]
    pub fn of(key: Option<&BusinessKey>, id: StoredId) -> Self {
        let mut hasher = blake3::Hasher::new();
        match key {
            Some(key) => hasher.update(b"key").update(key.as_bytes()),
            None => hasher.update(b"id").update(id.0.as_bytes()),
        };
        Self(first_bits(&hasher.finalize()))
    }

    /// As the `uuid` value that the store writes.
    #[must_use]
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }

    /// From the `uuid` value that the store read.
    #[must_use]
    pub fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }
}

/// The first 128 bits of a hash.
fn first_bits(hash: &blake3::Hash) -> Uuid {
    let mut first = [0; 16];
    first.copy_from_slice(&hash.as_bytes()[..16]);
    Uuid::from_bytes(first)
}

/// The random token of a start: whoever has it ends what was started. Made before the statement, so that a
/// start whose answer was lost is known by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StartToken(Uuid);

impl StartToken {
    /// A new random token.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// As the `uuid` value that the store writes.
    #[must_use]
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Debug for StartToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StartToken({})", self.0)
    }
}

/// The store's number for a subscription: what rows carry instead of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId(pub i32);

/// The store's number for a group's topic partition: what rows carry instead of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub i32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphenated_uuid_is_stored_as_it_is() {
        let id = "6f1f9c3e-5b5a-4a52-9d0e-0f3c8a3b7c11";
        assert_eq!(MessageId::new(id).stored().as_uuid().to_string(), id);
        assert_eq!(MessageId::new(id.to_uppercase()).stored(), MessageId::new(id).stored());
    }

    #[test]
    fn any_other_id_is_hashed_to_128_bits() {
        let simple = "6f1f9c3e5b5a4a529d0e0f3c8a3b7c11";
        assert_ne!(MessageId::new(simple).stored().as_uuid().simple().to_string(), simple);
        let long = "x".repeat(1 << 20);
        assert_ne!(MessageId::new(&*long).stored(), MessageId::new(&long[1..]).stored());
        assert_ne!(MessageId::new("a\0b").stored(), MessageId::new("a").stored());
    }

    #[test]
    fn keys_are_told_apart_by_every_byte_and_from_ids() {
        let uuid = "6f1f9c3e-5b5a-4a52-9d0e-0f3c8a3b7c11";
        let (id, upper) = (MessageId::new(uuid).stored(), uuid.to_uppercase());
        let key = |key: &[u8]| KeyId::of(Some(&BusinessKey::new(key)), id);
        let hash = KeyId::of(None, id).as_uuid().to_string();
        let ids = [
            KeyId::of(None, id),
            KeyId::of(None, MessageId::new("another").stored()),
            key(uuid.as_bytes()),
            key(upper.as_bytes()),
            key(id.as_uuid().as_bytes()),
            key(hash.as_bytes()),
            key(b""),
            key(b"\0"),
        ];
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        // A key's does not depend on the message's id.
        assert_eq!(KeyId::of(Some(&BusinessKey::new(b"")), MessageId::new("another").stored()), key(b""));
    }

    #[test]
    fn an_offset_id_differs_by_each_of_its_parts() {
        let place = |topic: &str, partition, offset| Place {
            topic: Topic::new(topic),
            partition: Partition(partition),
            offset: Offset(offset),
        };
        let ids = [
            MessageId::of_offset(&place("t", 1, 2), "c", 1),
            MessageId::of_offset(&place("t", 1, 2), "c", 2),
            MessageId::of_offset(&place("t", 1, 2), "d", 1),
            MessageId::of_offset(&place("u", 1, 2), "c", 1),
            MessageId::of_offset(&place("t", 2, 2), "c", 1),
            MessageId::of_offset(&place("t", 1, 3), "c", 1),
        ];
        let distinct: std::collections::HashSet<_> = ids.iter().map(MessageId::stored).collect();
        assert_eq!(distinct.len(), ids.len());
    }

    #[test]
    fn names_that_could_not_be_kept_are_refused_with_what_to_use() {
        assert!(SubscriptionName::new("payments.reserve").problem().is_none());
        assert!(SubscriptionName::new("").problem().is_some());
        assert!(SubscriptionName::new("a b").problem().is_some_and(|p| p.contains("' '")));
        assert!(SubscriptionName::new("x".repeat(201)).problem().is_some_and(|p| p.contains("200")));
    }
}
