//! What a record says as a `CloudEvents` event, in binary or structured mode.
//!
//! | file | what lives there |
//! |---|---|
//! | `envelope` | the JSON object of structured mode, opened once per record |
//! | `media_type` | which mode a content type says, and whether data is JSON |

mod envelope;
mod media_type;

use std::sync::Arc;

use envelope::Envelope;
pub(crate) use envelope::Structured;

use crate::identity::MessageId;
use crate::record::{Headers, Record};

/// The attributes of a record that is a `CloudEvents` event, in either mode of the Kafka binding:
///
/// - *binary*: the headers `ce_id`, `ce_source` and so on; the record's value is the data;
/// - *structured*: the header `content-type` begins with `application/cloudevents` and the record's value
///   is an envelope in the JSON format, which is opened once per record.
///
/// Attributes are as they came: none of them is checked but `id` and `source`, which name the message.
///
/// ```
/// use inbox_core::{CloudEvent, Definition, IdRule, Json, KeyRule};
///
/// let definition: Definition<serde_json::Value> = Definition::new("orders", Json)
///     .topic("shop")
///     .id(IdRule::cloud_event())
///     .key(KeyRule::record())
///     // What is no event passes: its dead letter says what is wrong with it. A filter that is false
///     // ignores it without a trace.
///     .filter(|record| {
///         CloudEvent::of(record).map_or(true, |event| event.event_type() == Some("order.placed"))
///     });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CloudEvent<'a> {
    id: &'a str,
    source: &'a str,
    attributes: Attributes<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Attributes<'a> {
    Headers(&'a Headers),
    Envelope(&'a Envelope),
}

/// Why a record is no event that could be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAnEvent {
    /// In binary mode a header is missing.
    #[error(
        "`ce_id` or `ce_source` is missing, empty or malformed: the sender has to set both, the source without white space"
    )]
    NoIdHeaders,
    /// The envelope does not name the event.
    #[error(
        "`id` or `source` of the event's envelope is missing, empty, not a text or malformed: the sender has to set \
         both, the source without white space"
    )]
    NoId,
    /// The content type says structured mode, and the value is no envelope that the inbox opens.
    #[error("{0}")]
    Envelope(Arc<str>),
}

/// What the specification defines; any other attribute is an extension.
const KNOWN: [&str; 7] = ["id", "source", "specversion", "type", "subject", "time", "dataschema"];

const CONTENT_TYPE: &str = "datacontenttype";

impl<'a> CloudEvent<'a> {
    /// The event that this record is.
    ///
    /// # Errors
    /// [`NotAnEvent`], if it has no usable `id` and `source`, or an envelope that cannot be opened.
    pub fn of(record: &'a Record) -> Result<Self, NotAnEvent> {
        let attributes = match record.structured() {
            Structured::No => Attributes::Headers(&record.headers),
            Structured::Event(envelope) => Attributes::Envelope(envelope),
            Structured::Refused(reason) => return Err(NotAnEvent::Envelope(Arc::clone(reason))),
        };
        let id = attributes.get("id").filter(|id| !id.is_empty());
        // A source is a URI reference, which has no white space: in the message id a space keeps the
        // two apart.
        let source = attributes
            .get("source")
            .filter(|source| !source.is_empty() && !source.contains(char::is_whitespace));
        match (source, id, attributes) {
            (Some(source), Some(id), _) => Ok(Self { id, source, attributes }),
            (_, _, Attributes::Headers(_)) => Err(NotAnEvent::NoIdHeaders),
            (_, _, Attributes::Envelope(_)) => Err(NotAnEvent::NoId),
        }
    }

    /// `id`: names the event within its source.
    #[must_use]
    pub fn id(&self) -> &'a str {
        self.id
    }

    /// `source`: where it happened, a URI reference.
    #[must_use]
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// `type`: what happened.
    #[must_use]
    pub fn event_type(&self) -> Option<&'a str> {
        self.attributes.get("type")
    }

    /// `specversion`.
    #[must_use]
    pub fn spec_version(&self) -> Option<&'a str> {
        self.attributes.get("specversion")
    }

    /// `subject`: what it happened to, within its source.
    #[must_use]
    pub fn subject(&self) -> Option<&'a str> {
        self.attributes.get("subject")
    }

    /// `time`: when it happened, as text of RFC 3339.
    #[must_use]
    pub fn time(&self) -> Option<&'a str> {
        self.attributes.get("time")
    }

    /// `dataschema`: a URI.
    #[must_use]
    pub fn data_schema(&self) -> Option<&'a str> {
        self.attributes.get("dataschema")
    }

    /// `datacontenttype`: in binary mode the header `content-type`.
    #[must_use]
    pub fn data_content_type(&self) -> Option<&'a str> {
        match self.attributes {
            Attributes::Headers(headers) => media_type::content_type(headers),
            Attributes::Envelope(_) => self.attributes.get(CONTENT_TYPE),
        }
    }

    /// An extension attribute of this name. Numbers and truth values are as JSON writes them, as binary
    /// mode has them too.
    #[must_use]
    pub fn extension(&self, name: &str) -> Option<&'a str> {
        if is_extension(name) { self.attributes.get(name) } else { None }
    }

    /// The extension attributes, by name and value, in the order in which they were sent.
    pub fn extensions(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (headers, envelope) = match self.attributes {
            Attributes::Headers(headers) => (Some(headers), None),
            Attributes::Envelope(envelope) => (None, Some(envelope)),
        };
        let of_headers = headers.into_iter().flat_map(Headers::iter).filter_map(|(name, value)| {
            Some((name.strip_prefix(PREFIX)?, std::str::from_utf8(value?).ok()?))
        });
        let of_envelope = envelope.into_iter().flat_map(Envelope::attributes);
        of_headers.chain(of_envelope).filter(|(name, _)| is_extension(name))
    }

    /// The same for the same event, in whichever mode it is sent.
    pub(crate) fn message_id(&self) -> MessageId {
        MessageId::new(format!("{} {}", self.source, self.id))
    }
}

/// Of the headers that are attributes in binary mode.
const PREFIX: &str = "ce_";

fn is_extension(name: &str) -> bool {
    !KNOWN.contains(&name) && name != CONTENT_TYPE
}

impl<'a> Attributes<'a> {
    fn get(self, name: &str) -> Option<&'a str> {
        match self {
            // As everywhere, the last one of a name counts.
            Self::Headers(headers) => {
                let (_, value) =
                    headers.iter().filter(|(header, _)| header.strip_prefix(PREFIX) == Some(name)).last()?;
                std::str::from_utf8(value?).ok()
            }
            Self::Envelope(envelope) => envelope.attribute(name),
        }
    }
}

/// The event's data: what a codec gets. `None` is a null value; an error says why there is none.
pub(crate) fn data(record: &Record) -> Result<Option<&[u8]>, &str> {
    match record.structured() {
        Structured::No => Ok(record.value.as_deref()),
        Structured::Event(envelope) => envelope.data(),
        Structured::Refused(reason) => Err(reason),
    }
}
