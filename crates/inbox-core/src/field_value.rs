//! How a payload's field becomes a message id or a business key.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// A payload field that can be a message id or a business key.
///
/// The text must be the same for equal values, in every version of the service: it is hashed for
/// lanes and stored as the dedup key. `None` means that the field is not there, and the record
/// becomes a dead letter.
///
/// ```
/// use std::borrow::Cow;
/// use inbox_core::FieldValue;
///
/// struct OrderId(u64);
///
/// impl FieldValue for OrderId {
///     fn field_value(&self) -> Option<Cow<'_, str>> {
///         Some(self.0.to_string().into())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a field of type `{Self}` cannot be a message id or a business key",
    label = "this field's type does not implement `FieldValue`",
    note = "strings, integers, `uuid::Uuid` and `Option` of those do; for a type of your own implement `inbox_core::FieldValue`"
)]
pub trait FieldValue {
    /// The field as text; `None` if it has no value.
    fn field_value(&self) -> Option<Cow<'_, str>>;
}

impl FieldValue for str {
    fn field_value(&self) -> Option<Cow<'_, str>> {
        Some(self.into())
    }
}

impl FieldValue for String {
    fn field_value(&self) -> Option<Cow<'_, str>> {
        Some(self.as_str().into())
    }
}

impl FieldValue for uuid::Uuid {
    fn field_value(&self) -> Option<Cow<'_, str>> {
        Some(self.to_string().into())
    }
}

impl<T: FieldValue> FieldValue for Option<T> {
    fn field_value(&self) -> Option<Cow<'_, str>> {
        self.as_ref()?.field_value()
    }
}

impl<T: FieldValue + ToOwned + ?Sized> FieldValue for Cow<'_, T> {
    fn field_value(&self) -> Option<Cow<'_, str>> {
        (**self).field_value()
    }
}

macro_rules! by_reference {
    ($($pointer:ty),*) => {$(
        impl<T: FieldValue + ?Sized> FieldValue for $pointer {
            fn field_value(&self) -> Option<Cow<'_, str>> {
                (**self).field_value()
            }
        }
    )*};
}

by_reference!(&T, Box<T>, Rc<T>, Arc<T>);

macro_rules! by_display {
    ($($integer:ty),*) => {$(
        impl FieldValue for $integer {
            fn field_value(&self) -> Option<Cow<'_, str>> {
                Some(self.to_string().into())
            }
        }
    )*};
}

by_display!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
