//! Text and bytes that are short nearly always: kept where they stand, without an allocation.
//!
//! A record is read on one thread and dropped on another, so each allocation of its parts costs twice.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use arrayvec::{ArrayString, ArrayVec};
use bytes::Bytes;

/// Text: up to 40 bytes in place, which a UUID fits.
#[derive(Clone, Debug)]
pub(crate) enum ShortText {
    Inline(ArrayString<40>),
    Boxed(Box<str>),
}

impl Deref for ShortText {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Inline(text) => text,
            Self::Boxed(text) => text,
        }
    }
}

impl From<Cow<'_, str>> for ShortText {
    fn from(text: Cow<'_, str>) -> Self {
        match ArrayString::from(&text) {
            Ok(inline) => Self::Inline(inline),
            Err(_) => Self::Boxed(text.into_owned().into()),
        }
    }
}

/// Bytes: up to 32 in place.
#[derive(Clone)]
pub(crate) enum ShortBytes {
    Inline(ArrayVec<u8, 32>),
    Shared(Bytes),
}

impl ShortBytes {
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        ArrayVec::try_from(bytes).map_or_else(|_| Self::Shared(Bytes::copy_from_slice(bytes)), Self::Inline)
    }

    pub(crate) fn shared(bytes: Bytes) -> Self {
        match ArrayVec::try_from(&*bytes) {
            Ok(inline) => Self::Inline(inline),
            Err(_) => Self::Shared(bytes),
        }
    }
}

impl Deref for ShortBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl PartialEq for ShortBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ShortBytes {}

impl Hash for ShortBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
