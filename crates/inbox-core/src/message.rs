//! A decoded record, as a handler sees it.

use std::ops::Deref;

use crate::cloud_event::CloudEvent;
use crate::identity::{BusinessKey, MessageId, Offset, Partition, Place, Topic};
use crate::record::{Headers, Record, Timestamp};

/// A decoded record with its id, business key and attempt.
///
/// It dereferences to its payload: `message.cents` is the payload's field.
#[derive(Debug)]
pub struct Message<T> {
    payload: T,
    id: MessageId,
    key: Option<BusinessKey>,
    attempt: u32,
    record: Record,
}

impl<T> Message<T> {
    /// A message of these parts, at its first attempt: for tests of handlers. Those that an inbox
    /// delivers it reads from records itself.
    #[must_use]
    #[inline]
    pub fn new(payload: T, id: MessageId, key: Option<BusinessKey>, record: Record) -> Self {
        Self { payload, id, key, attempt: 1, record }
    }

    /// What the record's value was decoded to.
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// Names the logical operation; the dedup key within the subscription.
    pub fn id(&self) -> &MessageId {
        &self.id
    }

    /// What orders this message; `None` for a null record key, which has no order to keep.
    pub fn key(&self) -> Option<&BusinessKey> {
        self.key.as_ref()
    }

    /// 1 for the first attempt, one more for each failure that was counted, in memory since this process
    /// first saw the message, and for good once it was parked. Reruns for other reasons (a batch was isolated, a connection was
    /// lost) raise no attempt.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(crate) fn set_attempt(&mut self, attempt: u32) {
        self.attempt = attempt;
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// The record's headers.
    pub fn headers(&self) -> &Headers {
        &self.record.headers
    }

    /// Where in Kafka the record is.
    pub fn place(&self) -> &Place {
        &self.record.place
    }

    /// The record's topic.
    pub fn topic(&self) -> &Topic {
        self.record.topic()
    }

    /// The record's partition.
    pub fn partition(&self) -> Partition {
        self.record.partition()
    }

    /// The record's offset.
    pub fn offset(&self) -> Offset {
        self.record.offset()
    }

    /// The record's timestamp, if it has one.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.record.timestamp
    }

    /// Its attributes as a `CloudEvents` event, in binary or structured mode; `None` where the record is
    /// none.
    pub fn cloud_event(&self) -> Option<CloudEvent<'_>> {
        CloudEvent::of(&self.record).ok()
    }

    /// The W3C trace context in the record's `traceparent` and `tracestate` headers; `None` where
    /// there is none or it is malformed.
    pub fn trace_context(&self) -> Option<TraceContext<'_>> {
        TraceContext::of(&self.record.headers)
    }
}

impl<T> Deref for Message<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}

/// W3C trace context as it came with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext<'a> {
    /// The `traceparent` header: `version-trace_id-parent_id-flags` in lower-case hex.
    pub traceparent: &'a str,
    /// The `tracestate` header, if there is one.
    pub tracestate: Option<&'a str>,
}

impl<'a> TraceContext<'a> {
    fn of(headers: &'a Headers) -> Option<Self> {
        let traceparent = headers.get_str("traceparent")?;
        let well_formed = traceparent.len() >= 55
            && traceparent.bytes().take(55).enumerate().all(|(at, byte)| match at {
                2 | 35 | 52 => byte == b'-',
                _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            });
        well_formed.then(|| Self { traceparent, tracestate: headers.get_str("tracestate") })
    }

    /// The 32 hex digits of the trace id.
    #[must_use]
    pub fn trace_id(&self) -> &'a str {
        &self.traceparent[3..35]
    }
}
