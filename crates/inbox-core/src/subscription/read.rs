//! From record to message: filter, limits, id, payload, key, in this order.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::cloud_event::{self, CloudEvent, NotAnEvent};
use crate::dead_letter::DeadClass;
use crate::identity::{BusinessKey, MessageId};
use crate::message::Message;
use crate::record::{Record, Timestamp};

use super::definition::Definition;
use super::rules::{IdSource, KeySource};

/// What a record is to a subscription.
pub(crate) enum Read<P> {
    /// The filter does not want it: no unit, no row.
    Ignored,
    /// A message to handle.
    Message(Box<Message<P>>),
    /// Nothing a handler could be given.
    Rejected(Box<Rejection>),
}

/// Why a record became a dead letter before any handler saw it.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(crate) class: DeadClass,
    pub(crate) reason: String,
    /// The record's own id where it has one; the id of its offset otherwise.
    pub(crate) id: MessageId,
    /// Its business key as far as it was found.
    pub(crate) key: Option<BusinessKey>,
    pub(crate) record: Record,
}

/// What reading needs to know beside the record.
pub(crate) struct ReadContext<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) incarnation: i32,
    pub(crate) max_record_bytes: usize,
    pub(crate) max_clock_skew: Duration,
}

type Refusal = (DeadClass, String);

/// What a message has beside its record.
type Parts<P> = (P, MessageId, Option<BusinessKey>);

impl<P: Send + Sync + 'static> Definition<P> {
    pub(crate) fn read(&self, record: Record, context: &ReadContext<'_>) -> Read<P> {
        let mut id = None;
        let mut key = None;
        // Filters, codecs and field readers are the user's code: their panic is the record's fault.
        let read = catch_unwind(AssertUnwindSafe(|| self.try_read(&record, context, &mut id, &mut key)));
        let refusal = match read {
            Ok(Ok(None)) => return Read::Ignored,
            Ok(Ok(Some((payload, id, key)))) => {
                return Read::Message(Box::new(Message::new(payload, id, key, record)));
            }
            Ok(Err(refusal)) => refusal,
            Err(panic) => {
                (DeadClass::Undecodable, format!("reading the record panicked: {}", panic_text(&*panic)))
            }
        };
        let (class, reason) = refusal;
        let id = id.unwrap_or_else(|| offset_id(&record, context));
        Read::Rejected(Box::new(Rejection { class, reason, id, key, record }))
    }

    /// Decodes a record again that was kept with its id and key: neither filter nor limits are asked again.
    pub(crate) fn reread(
        &self,
        record: Record,
        id: MessageId,
        key: Option<BusinessKey>,
    ) -> Result<Box<Message<P>>, Box<Rejection>> {
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            let value = match &self.id {
                Some(IdSource::CloudEvent) => cloud_event::data(&record).map_err(String::from)?,
                _ => record.value.as_deref(),
            };
            self.codec.decode_value(value).map_err(|error| error.to_string())
        }));
        let reason = match decoded {
            Ok(Ok(payload)) => return Ok(Box::new(Message::new(payload, id, key, record))),
            Ok(Err(reason)) => reason,
            Err(panic) => format!("reading the record panicked: {}", panic_text(&*panic)),
        };
        Err(Box::new(Rejection { class: DeadClass::Undecodable, reason, id, key, record }))
    }

    fn try_read(
        &self,
        record: &Record,
        context: &ReadContext<'_>,
        found_id: &mut Option<MessageId>,
        found_key: &mut Option<BusinessKey>,
    ) -> Result<Option<Parts<P>>, Refusal> {
        if self.filter.as_ref().is_some_and(|wanted| !wanted(record)) {
            return Ok(None);
        }
        let (Some(id_source), Some(key_source)) = (&self.id, &self.key) else {
            unreachable!("a definition without rules does not pass its check");
        };
        // The envelope of a CloudEvent is only opened for those who take ids from it.
        let value = match id_source {
            IdSource::CloudEvent => cloud_event::data(record),
            _ => Ok(record.value.as_deref()),
        };
        let tombstone = matches!(value, Ok(None));
        let id_source = id_source.for_record(tombstone);
        let key_source = key_source.for_record(tombstone);

        // What needs no payload comes first, so that a dead letter keeps as much as there is.
        *found_id = id_source.without_payload(record, context).transpose()?;
        *found_key = key_source.without_payload(record);
        check_limits(record, context)?;

        let undecodable = |reason: String| (DeadClass::Undecodable, reason);
        let value = value.map_err(|reason| undecodable(reason.into()))?;
        let payload = self.codec.decode_value(value).map_err(|error| undecodable(error.to_string()))?;
        if let IdSource::Payload { field, .. } = id_source {
            *found_id = Some(usable((field.read)(&payload)).ok_or_else(|| {
                (
                    DeadClass::NoId,
                    format!("the payload field `{}` that names the message is missing or empty", field.name),
                )
            })?);
        }
        if let KeySource::Payload { field, .. } = key_source {
            *found_key = Some(
                (field.read)(&payload).map(|key| BusinessKey::new(key.as_bytes())).ok_or_else(|| {
                    (
                        DeadClass::NoKey,
                        format!("the payload field `{}` that is the business key is missing", field.name),
                    )
                })?,
            );
        }
        let id = found_id.take().unwrap_or_else(|| offset_id(record, context));
        Ok(Some((payload, id, found_key.take())))
    }
}

impl<P> IdSource<P> {
    fn for_record(&self, tombstone: bool) -> &Self {
        match self {
            Self::Payload { tombstone: Some(other), .. } if tombstone => other,
            rule => rule,
        }
    }

    fn without_payload(
        &self,
        record: &Record,
        context: &ReadContext<'_>,
    ) -> Option<Result<MessageId, Refusal>> {
        let no_id = |what: String| (DeadClass::NoId, what);
        match self {
            Self::Header(name) => {
                Some(usable(record.headers.get_str(name).map(Cow::Borrowed)).ok_or_else(|| {
                    no_id(format!(
                        "the header `{name}` that names the message is missing, empty or not UTF-8"
                    ))
                }))
            }
            Self::CloudEvent => Some(match CloudEvent::of(record) {
                Ok(event) => Ok(event.message_id()),
                Err(problem @ NotAnEvent::Envelope(_)) => Err((DeadClass::Undecodable, problem.to_string())),
                Err(problem) => Err(no_id(problem.to_string())),
            }),
            Self::Offset => Some(Ok(offset_id(record, context))),
            Self::Payload { .. } => None,
        }
    }
}

impl<P> KeySource<P> {
    fn for_record(&self, tombstone: bool) -> &Self {
        match self {
            Self::Payload { tombstone: Some(other), .. } if tombstone => other,
            rule => rule,
        }
    }

    fn without_payload(&self, record: &Record) -> Option<BusinessKey> {
        match self {
            Self::Record => record.key.clone().map(BusinessKey::shared),
            // One key for all: what tells partitions apart is kept beside the key.
            Self::Partition => Some(BusinessKey::new(&[])),
            Self::Payload { .. } => None,
        }
    }
}

fn check_limits(record: &Record, context: &ReadContext<'_>) -> Result<(), Refusal> {
    let size = record.size();
    if size > context.max_record_bytes {
        let limit = context.max_record_bytes;
        return Err((
            DeadClass::Oversized,
            format!("the record has {size} bytes, more than max_record_bytes = {limit}"),
        ));
    }
    if let Some(Timestamp(time)) = record.timestamp {
        let Timestamp(now) = Timestamp::now();
        let skew = i64::try_from(context.max_clock_skew.as_millis()).unwrap_or(i64::MAX);
        if time > now.saturating_add(skew) {
            let ahead = (time - now) / 1000;
            return Err((
                DeadClass::FutureDated,
                format!("its timestamp lies {ahead} s in the future, more than max_clock_skew"),
            ));
        }
    }
    Ok(())
}

fn usable(id: Option<Cow<'_, str>>) -> Option<MessageId> {
    id.filter(|id| !id.is_empty()).map(MessageId::new)
}

fn offset_id(record: &Record, context: &ReadContext<'_>) -> MessageId {
    MessageId::of_offset(&record.place, context.cluster, context.incarnation)
}

/// What a panic said, where it said text.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text")
}
