//! Every mistake is reported, not only the first.

use syn::Error;

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            None => self.0 = Some(error),
            Some(errors) => errors.combine(error),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// `value`, if there was no mistake.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Error> {
        match self.0 {
            None => Ok(value),
            Some(errors) => Err(errors),
        }
    }
}
