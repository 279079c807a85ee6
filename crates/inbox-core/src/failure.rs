//! What a handler says when it could not do its work, and what follows from it.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use diesel::result::{DatabaseErrorKind, Error as DieselError};

/// What a handler returns.
///
/// - `Ok(())`: the message's effect and its receipt are committed together.
/// - `Err(failure)`: everything the handler did in its transaction is rolled back, then what
///   happens depends on the [`FailureClass`].
pub type Outcome = Result<(), Failure>;

/// Why a message could not be handled, and what to do about it.
///
/// `?` on any error type inside a handler makes one: diesel errors (also inside a chain of sources)
/// are classified by kind, every other error is [transient](FailureClass::Transient).
///
/// `Failure` does not implement `std::error::Error`: that is what lets `?` convert every error.
pub struct Failure {
    class: FailureClass,
    reason: String,
    /// When to try again, if the handler knows.
    wait: Option<Duration>,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureClass {
    /// Trying again cannot help: the message becomes a dead letter at once.
    Permanent,
    /// It may work later: the message is tried again with backoff, see
    /// [`RetryPolicy`](crate::RetryPolicy). Its key waits, others go on.
    Transient,
    /// A constraint of the database was broken. Like transient, with fewer attempts: the row that a foreign
    /// key wants may still come, but a rule that stays broken must not hold its key up for a day.
    Constraint,
    /// The database chose this transaction as the victim of a conflict: tried again at once first,
    /// then like a transient failure.
    Conflict,
    /// Something that all messages depend on is at fault, not the message; no attempt is counted. The
    /// database is probed: if it is down, partitions pause until a probe succeeds; if it is up, the message is
    /// tried again after a second.
    Infrastructure,
    /// The driver does not say whose fault it is (deadlock, lock or statement time-out, disk full
    /// and shutdown all arrive so): a probe of the database decides between transient and
    /// infrastructure.
    Unclear,
}

impl FailureClass {
    /// The class's name in logs and rows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Transient => "transient",
            Self::Constraint => "constraint",
            Self::Conflict => "conflict",
            Self::Infrastructure => "infrastructure",
            Self::Unclear => "unclear",
        }
    }
}

impl Failure {
    /// The message can never be handled: it becomes a dead letter at once.
    pub fn permanent(reason: impl fmt::Display) -> Self {
        Self::of(FailureClass::Permanent, reason)
    }

    /// The message may be handled later: it is tried again with backoff.
    pub fn transient(reason: impl fmt::Display) -> Self {
        Self::of(FailureClass::Transient, reason)
    }

    /// The message may be handled after this time, which whoever refused it named (as in HTTP's
    /// `Retry-After`): it is not tried before. The attempt counts; the message is still buried when its
    /// [limits](crate::RetryPolicy) are used up.
    pub fn transient_after(wait: Duration, reason: impl fmt::Display) -> Self {
        Self { wait: Some(wait), ..Self::of(FailureClass::Transient, reason) }
    }

    /// Something all messages depend on is down: see [`FailureClass::Infrastructure`].
    pub fn infrastructure(reason: impl fmt::Display) -> Self {
        Self::of(FailureClass::Infrastructure, reason)
    }

    pub(crate) fn of(class: FailureClass, reason: impl fmt::Display) -> Self {
        Self { class, reason: reason.to_string(), wait: None }
    }

    /// What follows from this failure.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        self.class
    }

    /// When to try again at the earliest, if the handler said.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Why, for a person: the error and its chain of sources.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({}: {})", self.class.as_str(), self.reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut reason = error.to_string();
        let mut class = (&error as &dyn Any).downcast_ref().map(classify);
        let mut source = error.source();
        while let Some(cause) = source {
            class = class.or_else(|| cause.downcast_ref().map(classify));
            // Many errors already print their source: say each thing once.
            let text = cause.to_string();
            if !reason.contains(&text) {
                reason.push_str(": ");
                reason.push_str(&text);
            }
            source = cause.source();
        }
        Self { class: class.unwrap_or(FailureClass::Transient), reason, wait: None }
    }
}

/// Whose fault a diesel error is, judged by its kind and never by its words.
pub(crate) fn classify(error: &DieselError) -> FailureClass {
    match error {
        DieselError::DatabaseError(kind, _) => match kind {
            DatabaseErrorKind::SerializationFailure => FailureClass::Conflict,
            DatabaseErrorKind::ReadOnlyTransaction
            | DatabaseErrorKind::ClosedConnection
            | DatabaseErrorKind::UnableToSendCommand => FailureClass::Infrastructure,
            DatabaseErrorKind::UniqueViolation
            | DatabaseErrorKind::ForeignKeyViolation
            | DatabaseErrorKind::NotNullViolation
            | DatabaseErrorKind::CheckViolation
            | DatabaseErrorKind::RestrictViolation
            | DatabaseErrorKind::ExclusionViolation => FailureClass::Constraint,
            _ => FailureClass::Unclear,
        },
        DieselError::BrokenTransactionManager => FailureClass::Infrastructure,
        _ => FailureClass::Transient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not reserve")]
    struct Reserve(#[source] DieselError);

    fn database(kind: DatabaseErrorKind) -> DieselError {
        DieselError::DatabaseError(kind, Box::new("said the server".to_owned()))
    }

    #[test]
    fn a_diesel_error_is_classified_by_its_kind() {
        let class = |kind| Failure::from(database(kind)).class();
        assert_eq!(class(DatabaseErrorKind::UniqueViolation), FailureClass::Constraint);
        assert_eq!(class(DatabaseErrorKind::SerializationFailure), FailureClass::Conflict);
        assert_eq!(class(DatabaseErrorKind::UnableToSendCommand), FailureClass::Infrastructure);
        assert_eq!(class(DatabaseErrorKind::ReadOnlyTransaction), FailureClass::Infrastructure);
        assert_eq!(class(DatabaseErrorKind::Unknown), FailureClass::Unclear);
        assert_eq!(Failure::from(DieselError::NotFound).class(), FailureClass::Transient);
    }

    #[test]
    fn a_diesel_error_is_found_in_the_chain_of_sources() {
        let failure = Failure::from(Reserve(database(DatabaseErrorKind::UnableToSendCommand)));
        assert_eq!(failure.class(), FailureClass::Infrastructure);
        assert_eq!(failure.reason(), "could not reserve: said the server");
    }

    #[test]
    fn an_unclassified_error_is_transient() {
        let failure = Failure::from("x".parse::<i32>().expect_err("not a number"));
        assert_eq!(failure.class(), FailureClass::Transient);
    }
}
