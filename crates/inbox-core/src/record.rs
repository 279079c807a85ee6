//! What Kafka delivered, before anyone has read it.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use smallvec::SmallVec;

use crate::cloud_event::{self, Structured};
use crate::identity::{Offset, Partition, Place, Topic};
use crate::short::ShortText;

/// What Kafka delivered: a place, a timestamp, and bytes.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where it is.
    pub place: Place,
    /// When its producer or broker says it was made, if it says so.
    pub timestamp: Option<Timestamp>,
    /// The record key; `None` for a null key.
    pub key: Option<Bytes>,
    /// The record value; `None` for a null value (a tombstone).
    pub value: Option<Bytes>,
    /// The record's headers, in the order in which they were sent.
    pub headers: Headers,
    /// The envelope that its value is, opened when somebody asks for it, and once.
    structured: OnceLock<Structured>,
}

impl Record {
    /// A record of these parts. Its headers and value are not to be changed any more once
    /// something was read from it: what was read is kept.
    #[must_use]
    pub fn new(
        place: Place,
        timestamp: Option<Timestamp>,
        key: Option<Bytes>,
        value: Option<Bytes>,
        headers: Headers,
    ) -> Self {
        Self { place, timestamp, key, value, headers, structured: OnceLock::new() }
    }

    /// The record's topic.
    #[must_use]
    pub fn topic(&self) -> &Topic {
        &self.place.topic
    }

    /// The record's partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.place.partition
    }

    /// The record's offset.
    #[must_use]
    pub fn offset(&self) -> Offset {
        self.place.offset
    }

    /// Bytes of key, value and headers together: what counts against byte limits.
    #[must_use]
    pub fn size(&self) -> usize {
        self.key.as_ref().map_or(0, Bytes::len)
            + self.value.as_ref().map_or(0, Bytes::len)
            + self.headers.size()
    }

    /// The CRC-32 of the value, of a `CloudEvent` in structured mode that of its data: kept beside a
    /// receipt, so that an id that comes again with another payload is noticed. It is no proof against
    /// forgery, and need not be.
    #[must_use]
    pub fn fingerprint(&self) -> i32 {
        let payload = cloud_event::data(self).unwrap_or(self.value.as_deref());
        crc32fast::hash(payload.unwrap_or_default()).cast_signed()
    }

    pub(crate) fn structured(&self) -> &Structured {
        self.structured.get_or_init(|| Structured::open(&self.headers, self.value.as_ref()))
    }
}

/// Milliseconds since 1970, as Kafka counts time. Negative and far future values are kept as they
/// came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Now, by this process's clock.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// This time as a `SystemTime`; `None` where the platform cannot hold it.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let distance = Duration::from_millis(self.0.unsigned_abs());
        if self.0 < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(distance)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(distance)
        }
    }
}

/// A record's headers: names may repeat, values may be null or any bytes.
#[derive(Clone, Default)]
pub struct Headers(SmallVec<[(ShortText, Option<Bytes>); 1]>);

impl Headers {
    /// Headers in this order.
    pub fn new<'a, N: Into<Cow<'a, str>>>(headers: impl IntoIterator<Item = (N, Option<Bytes>)>) -> Self {
        Self(headers.into_iter().map(|(name, value)| (name.into().into(), value)).collect())
    }

    /// The value of the last header of this name; `None` if there is none or its value is null.
    ///
    /// Kafka's convention for repeated headers: the last one counts.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().rev().find(|(n, _)| &**n == name)?.1.as_deref()
    }

    /// Like [`Headers::get`], as text; `None` also where the value is not UTF-8.
    #[must_use]
    pub fn get_str(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// All headers in the order in which they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.0.iter().map(|(name, value)| (&**name, value.as_deref()))
    }

    fn size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Bytes::len)).sum()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
