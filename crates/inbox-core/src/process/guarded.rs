//! The user's future behind a guard: a panic or an endless wait fails that message alone.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::failure::{Failure, FailureClass, Outcome};
use crate::subscription::panic_text;
use crate::tx::{Seen, Watch};

use super::AttemptEnd;

/// Runs a handler's future to its end, a panic or its time limit.
///
/// After a panic or a time-out the future was dropped in the middle of its work: whatever
/// connection it used is in an unknown state.
pub(crate) async fn guarded(
    handler: impl Future<Output = Outcome> + Send,
    limit: Duration,
) -> Result<Outcome, AttemptEnd> {
    match tokio::time::timeout(limit, caught(handler)).await {
        Ok(ended) => ended,
        Err(_) => Err(AttemptEnd::TimedOut { index: None }),
    }
}

/// The same without a time limit of its own, for calls that run under a common one.
pub(crate) async fn caught(handler: impl Future<Output = Outcome> + Send) -> Result<Outcome, AttemptEnd> {
    let ended = AssertUnwindSafe(handler).catch_unwind().await;
    ended.map_err(|panic| AttemptEnd::Panicked { index: None, reason: panic_text(&*panic).to_owned() })
}

/// What a handler's return value and what its transaction saw mean together.
///
/// An error that the handler swallowed fails the attempt, since the database has given the
/// transaction up. An error that is the database's own fault outweighs what the handler made of it:
/// an outage must not become a dead letter because a handler calls every error permanent (P6).
pub(crate) fn judge(index: Option<usize>, outcome: Outcome, watch: &Watch) -> AttemptEnd {
    match (outcome, watch.seen()) {
        (_, Some(Seen::SecondStatement(sql))) => AttemptEnd::SecondStatement { sql },
        (Ok(()), None) => AttemptEnd::Done,
        (Err(failure), None) => {
            let suspect_database = is_suspect(failure.class());
            AttemptEnd::Failed { index, failure, suspect_database }
        }
        (outcome, Some(Seen::Error(class, reason))) => {
            let failure = match outcome {
                Err(failure) if !matches!(class, FailureClass::Infrastructure | FailureClass::Conflict) => {
                    failure
                }
                Err(_) => Failure::of(class, reason),
                Ok(()) => Failure::of(
                    class,
                    format!("a statement of the handler failed, and the handler went on: {reason}"),
                ),
            };
            let suspect_database = is_suspect(class) || is_suspect(failure.class());
            AttemptEnd::Failed { index, failure, suspect_database }
        }
    }
}

fn is_suspect(class: FailureClass) -> bool {
    matches!(class, FailureClass::Infrastructure | FailureClass::Unclear)
}

#[cfg(test)]
mod tests {
    use diesel::result::{DatabaseErrorKind, Error as DieselError};

    use super::*;

    fn watch_that_saw(kind: DatabaseErrorKind) -> std::sync::Arc<Watch> {
        let watch = Watch::new(false);
        watch.failed(&DieselError::DatabaseError(kind, Box::new("said the server".to_owned())));
        watch
    }

    #[test]
    fn a_swallowed_error_fails_the_attempt() {
        let end = judge(Some(3), Ok(()), &watch_that_saw(DatabaseErrorKind::UniqueViolation));
        assert!(matches!(end, AttemptEnd::Failed { index: Some(3), suspect_database: false, .. }), "{end:?}");
    }

    #[test]
    fn a_lost_connection_is_never_the_messages_fault() {
        let watch = watch_that_saw(DatabaseErrorKind::UnableToSendCommand);
        let end = judge(None, Err(Failure::permanent("cannot be")), &watch);
        let AttemptEnd::Failed { failure, suspect_database: true, .. } = end else { panic!("{end:?}") };
        assert_eq!(failure.class(), FailureClass::Infrastructure);
    }

    #[test]
    fn what_a_handler_says_of_an_unclear_error_stands_after_a_probe() {
        let watch = watch_that_saw(DatabaseErrorKind::Unknown);
        let end = judge(None, Err(Failure::permanent("the trigger said no")), &watch);
        let AttemptEnd::Failed { failure, suspect_database: true, .. } = end else { panic!("{end:?}") };
        assert_eq!(failure.class(), FailureClass::Permanent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_and_an_endless_wait_end() {
        let limit = Duration::from_secs(1);
        let panicked = guarded(async { panic!("boom {}", 1) }, limit).await;
        assert!(
            matches!(&panicked, Err(AttemptEnd::Panicked { reason, .. }) if reason == "boom 1"),
            "{panicked:?}"
        );
        let endless = guarded(std::future::pending(), limit).await;
        assert!(matches!(endless, Err(AttemptEnd::TimedOut { .. })));
    }
}
