//! Where a message's id and business key come from.

use std::borrow::Cow;
use std::fmt;

use crate::field_value::FieldValue;

type ReadField<P> = Box<dyn Fn(&P) -> Option<Cow<'_, str>> + Send + Sync>;

/// A field of the payload, by the name that is recorded and a function that reads it.
pub(crate) struct Field<P> {
    pub(crate) name: &'static str,
    pub(crate) read: ReadField<P>,
}

impl<P> Field<P> {
    fn new<F, V>(name: &'static str, read: F) -> Self
    where
        F: Fn(&P) -> &V + Send + Sync + 'static,
        V: FieldValue + ?Sized + 'static,
    {
        Self { name, read: Box::new(move |payload| read(payload).field_value()) }
    }

    fn of_option<T, F, V>(name: &'static str, read: F) -> Field<Option<T>>
    where
        F: Fn(&T) -> &V + Send + Sync + 'static,
        V: FieldValue + ?Sized + 'static,
    {
        Field { name, read: Box::new(move |payload: &Option<T>| read(payload.as_ref()?).field_value()) }
    }
}

/// Where the message id comes from. Recorded with the subscription: another rule needs another
/// subscription name.
pub struct IdRule<P>(pub(crate) IdSource<P>);

pub(crate) enum IdSource<P> {
    Header(Cow<'static, str>),
    CloudEvent,
    Payload { field: Field<P>, tombstone: Option<Box<IdSource<P>>> },
    Offset,
}

impl<P> IdRule<P> {
    /// From a header. No such header, a null or empty value, or one that is not UTF-8: the record
    /// becomes a dead letter of class `no_id`.
    pub fn header(name: impl Into<Cow<'static, str>>) -> Self {
        Self(IdSource::Header(name.into()))
    }

    /// From the `id` and `source` of a `CloudEvents` event together, since the standard makes ids unique
    /// per source. One that is missing or empty, or a source with white space in it: dead letter of class
    /// `no_id`.
    ///
    /// In binary mode they are the headers `ce_id` and `ce_source`. In structured mode (a header
    /// `content-type` of `application/cloudevents+json`) they are members of the envelope that the value
    /// is, and the codec, and with it rules that name payload fields, gets the event's data: the bytes of
    /// `data` as they stand there; the text itself where `datacontenttype` is not JSON; the decoded
    /// `data_base64`; a null value where there is no data. The same event in either mode is one message. A
    /// malformed envelope, another format and a batch: dead letter of class `undecodable`.
    ///
    /// See [`CloudEvent`](crate::CloudEvent) for the other attributes.
    #[must_use]
    pub fn cloud_event() -> Self {
        Self(IdSource::CloudEvent)
    }

    /// From a payload field. A field without value, or an empty one: dead letter of class `no_id`.
    /// `name` is what is recorded of the rule.
    pub fn payload<F, V>(name: &'static str, read: F) -> Self
    where
        F: Fn(&P) -> &V + Send + Sync + 'static,
        V: FieldValue + ?Sized + 'static,
    {
        Self(IdSource::Payload { field: Field::new(name, read), tombstone: None })
    }

    /// From the record's place in Kafka: for senders that give no id. Redelivery is recognised, a
    /// sender's resend is not.
    #[must_use]
    pub fn offset() -> Self {
        Self(IdSource::Offset)
    }
}

impl<T> IdRule<Option<T>> {
    /// From a payload field; a tombstone, which has no fields, takes its id by `tombstone`.
    pub fn payload_or<F, V>(name: &'static str, read: F, tombstone: Self) -> Self
    where
        F: Fn(&T) -> &V + Send + Sync + 'static,
        V: FieldValue + ?Sized + 'static,
    {
        let field = Field::<Option<T>>::of_option(name, read);
        Self(IdSource::Payload { field, tombstone: Some(Box::new(tombstone.0)) })
    }
}

impl<P> fmt::Display for IdSource<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header({name})"),
            Self::CloudEvent => f.write_str("cloud_event"),
            Self::Payload { field, tombstone: None } => write!(f, "payload({})", field.name),
            Self::Payload { field, tombstone: Some(or) } => {
                write!(f, "payload({}, tombstone = {or})", field.name)
            }
            Self::Offset => f.write_str("offset"),
        }
    }
}

/// Where the business key comes from. Recorded with the subscription: another rule needs another
/// subscription name.
pub struct KeyRule<P>(pub(crate) KeySource<P>);

pub(crate) enum KeySource<P> {
    Payload { field: Field<P>, tombstone: Option<Box<KeySource<P>>> },
    Record,
    Partition,
}

impl<P> KeyRule<P> {
    /// From a payload field. A field without value: dead letter of class `no_key`. `name` is what
    /// is recorded of the rule.
    pub fn payload<F, V>(name: &'static str, read: F) -> Self
    where
        F: Fn(&P) -> &V + Send + Sync + 'static,
        V: FieldValue + ?Sized + 'static,
    {
        Self(KeySource::Payload { field: Field::new(name, read), tombstone: None })
    }

    /// The record key. A record with a null key has no order to keep.
    #[must_use]
    pub fn record() -> Self {
        Self(KeySource::Record)
    }

    /// One key for the whole partition: everything in it is handled in order, one at a time.
    #[must_use]
    pub fn partition() -> Self {
        Self(KeySource::Partition)
    }
}

impl<T> KeyRule<Option<T>> {
    /// From a payload field; a tombstone, which has no fields, takes its key by `tombstone`.
    pub fn payload_or<F, V>(name: &'static str, read: F, tombstone: Self) -> Self
    where
        F: Fn(&T) -> &V + Send + Sync + 'static,
        V: FieldValue + ?Sized + 'static,
    {
        let field = Field::<Option<T>>::of_option(name, read);
        Self(KeySource::Payload { field, tombstone: Some(Box::new(tombstone.0)) })
    }
}

impl<P> fmt::Display for KeySource<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payload { field, tombstone: None } => write!(f, "payload({})", field.name),
            Self::Payload { field, tombstone: Some(or) } => {
                write!(f, "payload({}, tombstone = {or})", field.name)
            }
            Self::Record => f.write_str("record"),
            Self::Partition => f.write_str("partition"),
        }
    }
}
