//! How a record's value becomes a payload.

use std::error::Error as StdError;

use serde::de::DeserializeOwned;

/// Why a value could not be decoded. Its text becomes the dead letter's reason.
pub type DecodeError = Box<dyn StdError + Send + Sync>;

/// Decodes record values to `T`: [`Json`], or your own for Avro, Protobuf and others.
///
/// A failure, or a panic, makes the record a dead letter of class `undecodable`: it is never
/// retried, since the same bytes decode the same way.
pub trait Codec<T>: Send + Sync + 'static {
    /// Decodes a value that is not null.
    fn decode(&self, value: &[u8]) -> Result<T, DecodeError>;
}

/// JSON by serde. Nesting deeper than 128 levels is refused by its parser and so undecodable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<T: DeserializeOwned> Codec<T> for Json {
    fn decode(&self, value: &[u8]) -> Result<T, DecodeError> {
        Ok(serde_json::from_slice(value)?)
    }
}

/// Wraps a codec of `T` into one of `Option<T>`, whose `None` is a record with a null value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tombstones<C>(pub C);

/// What a [`Definition`](super::Definition) needs of a codec: what to do with a null value too.
///
/// Every [`Codec`] is one that refuses null values; [`Tombstones`] accepts them.
pub trait Payload<T>: Send + Sync + 'static {
    /// Decodes a value; `None` is a null value.
    fn decode_value(&self, value: Option<&[u8]>) -> Result<T, DecodeError>;

    /// Whether a null value is a payload.
    fn takes_tombstones(&self) -> bool;
}

impl<T, C: Codec<T>> Payload<T> for C {
    fn decode_value(&self, value: Option<&[u8]>) -> Result<T, DecodeError> {
        let value = value.ok_or(
            "the value is null (a tombstone): where tombstones mean something, let the payload be an Option",
        )?;
        self.decode(value)
    }

    fn takes_tombstones(&self) -> bool {
        false
    }
}

impl<T, C: Codec<T>> Payload<Option<T>> for Tombstones<C> {
    fn decode_value(&self, value: Option<&[u8]>) -> Result<Option<T>, DecodeError> {
        value.map(|value| self.0.decode(value)).transpose()
    }

    fn takes_tombstones(&self) -> bool {
        true
    }
}
