//! The envelope of structured mode: a JSON object with attributes and data.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::record::Headers;
use crate::short::ShortText;

use super::media_type::{Mode, content_type, is_json};
use super::{CONTENT_TYPE, KNOWN};

/// What became of a record's value when it was asked for an envelope.
#[derive(Clone, Debug)]
pub(crate) enum Structured {
    /// The record is not in structured mode.
    No,
    /// It says that it is, and there is no envelope to open.
    Refused(Arc<str>),
    /// It is open.
    Event(Arc<Envelope>),
}

/// An opened envelope.
#[derive(Debug)]
pub(crate) struct Envelope {
    attributes: Box<[(ShortText, ShortText)]>,
    /// What a codec gets, or why there is nothing for it although the event has a name.
    data: Result<Option<Bytes>, Box<str>>,
}

impl Structured {
    /// Opens the value, if the content type says that there is something to open. A null value is no
    /// envelope: such a record is a tombstone in binary mode.
    pub(crate) fn open(headers: &Headers, value: Option<&Bytes>) -> Self {
        let (Some(content_type), Some(value)) = (content_type(headers), value) else { return Self::No };
        let refused = |reason: String| Self::Refused(reason.into());
        match Mode::of(content_type) {
            Mode::Binary => Self::No,
            Mode::Batch => refused(format!(
                "the record is a batch of CloudEvents ({content_type}), which would share one offset: the sender has \
                 to make a record of each event"
            )),
            Mode::Other => refused(format!(
                "the record is a CloudEvent in a format that the inbox does not open ({content_type}): the sender has to \
                 use application/cloudevents+json, or binary mode"
            )),
            Mode::Json => match serde_json::from_slice::<Members<'_>>(value) {
                Err(error) => refused(format!(
                    "the record says that it is a CloudEvent ({content_type}), and its value is no JSON object: {error}"
                )),
                Ok(Members(members)) => match repeated(&members) {
                    Some(name) => refused(format!(
                        "the CloudEvent has the member `{name}` twice: the sender has to say which one is meant"
                    )),
                    None => Self::Event(Arc::new(Envelope::new(&members, value))),
                },
            },
        }
    }
}

/// The members of a JSON object, unread, in the order in which they came.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a CloudEvent's envelope")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    // Each takes more memory than its bytes, and no event has as many (P5).
                    if members.len() == MAX_MEMBERS {
                        let reason = format_args!("it has more than {MAX_MEMBERS} members");
                        return Err(A::Error::custom(reason));
                    }
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

const MAX_MEMBERS: usize = 1000;

const DATA: &str = "data";
const BASE64: &str = "data_base64";

/// One that means something and is there more than once: readers would not agree on which counts.
fn repeated<'a>(members: &'a [(String, &RawValue)]) -> Option<&'a str> {
    let mut seen = [false; KNOWN.len() + 3];
    let names = KNOWN.iter().chain(&[CONTENT_TYPE, DATA, BASE64]);
    members.iter().map(|(name, _)| &**name).find(|name| {
        names.clone().position(|known| known == name).is_some_and(|at| std::mem::replace(&mut seen[at], true))
    })
}

impl Envelope {
    fn new(members: &[(String, &RawValue)], value: &Bytes) -> Self {
        let attributes: Box<[_]> = members
            .iter()
            .filter(|(name, _)| name != DATA && name != BASE64)
            .filter_map(|(name, raw)| {
                Some((ShortText::from(Cow::Borrowed(name.as_str())), attribute(name, raw)?))
            })
            .collect();
        let mut envelope = Self { attributes, data: Ok(None) };
        envelope.data = envelope.open_data(members, value).map_err(String::into_boxed_str);
        envelope
    }

    fn open_data(&self, members: &[(String, &RawValue)], value: &Bytes) -> Result<Option<Bytes>, String> {
        match self.attribute("specversion") {
            Some(version) if version.starts_with("1.") => {}
            version => {
                let version = version.unwrap_or("missing");
                return Err(format!("the CloudEvent's specversion is {version}: the inbox opens 1.x"));
            }
        }
        let member = |wanted: &str| {
            let found = members.iter().find(|(name, _)| name == wanted);
            // A member that is null counts as one that is not there.
            found.map(|(_, raw)| *raw).filter(|raw| raw.get() != "null")
        };
        match (member(DATA), member(BASE64)) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err("the CloudEvent has both data and data_base64: one of them is data".into()),
            (None, Some(encoded)) => decode(encoded).map(Some),
            (Some(raw), None) if is_json(self.attribute(CONTENT_TYPE)) => {
                Ok(Some(value.slice_ref(raw.get().as_bytes())))
            }
            (Some(raw), None) => text(raw).map(|text| Some(text.into())).ok_or_else(|| {
                let said = self.attribute(CONTENT_TYPE).unwrap_or_default();
                format!(
                    "the CloudEvent's datacontenttype is {said:?}, and its data is not a text: the sender has to write it \
                     as a JSON string, or as data_base64"
                )
            }),
        }
    }

    /// Of several of one name the last counts.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().rev().find(|(attribute, _)| **attribute == *name).map(|(_, value)| &**value)
    }

    pub(super) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(name, value)| (&**name, &**value))
    }

    pub(super) fn data(&self) -> Result<Option<&[u8]>, &str> {
        match &self.data {
            Ok(data) => Ok(data.as_deref()),
            Err(reason) => Err(reason),
        }
    }
}

/// An attribute as binary mode would have it: a text as it is, a number or truth value as JSON has it.
/// One that is null is not there, and what names a message must be a text.
fn attribute(name: &str, raw: &RawValue) -> Option<ShortText> {
    match raw.get().as_bytes().first() {
        Some(b'"') => Some(Cow::<str>::Owned(text(raw)?).into()),
        Some(b'n') => None,
        _ if name == "id" || name == "source" => None,
        _ => Some(Cow::Borrowed(raw.get()).into()),
    }
}

/// A JSON string, if it is one. Escapes that stand for no character make it none.
fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn decode(encoded: &RawValue) -> Result<Bytes, String> {
    let reason = |why: &dyn fmt::Display| format!("the CloudEvent's data_base64 is not base64: {why}");
    let encoded = text(encoded).ok_or_else(|| reason(&"it is not a text"))?;
    STANDARD.decode(encoded).map(Bytes::from).map_err(|error| reason(&error))
}
