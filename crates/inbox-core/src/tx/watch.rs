//! What a transaction saw: statements counted, errors of statements and of row streams kept.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use diesel::QueryResult;
use diesel::result::Error as DieselError;
use futures_util::Stream;

use crate::failure::{self, FailureClass};

/// The first thing that went wrong in a handler's transaction.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// A second statement, or a savepoint, where only one may be sent: with its SQL.
    SecondStatement(String),
    /// A statement or a row failed.
    Error(FailureClass, String),
}

/// Shared by a [`Tx`](super::Tx), its row streams and the code that decides about the attempt.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    one_statement: bool,
    statements: AtomicU32,
    seen: Mutex<Option<Seen>>,
}

impl Watch {
    pub(crate) fn new(one_statement: bool) -> Arc<Self> {
        Arc::new(Self { one_statement, ..Self::default() })
    }

    pub(crate) fn statements(&self) -> u32 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Counts a statement; refuses it, and remembers that, where it would be one too many.
    pub(crate) fn count(&self, sql: impl FnOnce() -> String) -> QueryResult<()> {
        let before = self.statements.fetch_add(1, Ordering::Relaxed);
        if before == 0 || !self.one_statement {
            return Ok(());
        }
        // Whatever was seen before: a second statement means that this way of running was wrong.
        *self.lock() = Some(Seen::SecondStatement(sql()));
        Err(DieselError::QueryBuilderError(
            "this handler sends a second statement: its batch is rolled back and its subscription runs in sequence".into(),
        ))
    }

    pub(crate) fn refuse(&self, problem: String) -> DieselError {
        self.note(FailureClass::Transient, problem.clone());
        DieselError::QueryBuilderError(problem.into())
    }

    pub(crate) fn failed(&self, error: &DieselError) {
        // Diesel's word for "no row": the statement itself went well.
        if !matches!(error, DieselError::NotFound) {
            self.note(failure::classify(error), error.to_string());
        }
    }

    fn note(&self, class: FailureClass, reason: String) {
        let mut seen = self.lock();
        if seen.is_none() {
            *seen = Some(Seen::Error(class, reason));
        }
    }

    pub(crate) fn seen(&self) -> Option<Seen> {
        self.lock().clone()
    }

    /// Fails after an error that is not behind a savepoint: whatever the database thinks, this
    /// transaction will be rolled back.
    pub(crate) fn given_up(&self) -> QueryResult<()> {
        match &*self.lock() {
            None => Ok(()),
            Some(_) => Err(DieselError::QueryBuilderError(
                "an earlier statement of this handler failed: its transaction will be rolled back; put a statement \
                 whose error the handler survives between tx.savepoint() and rollback_to()"
                    .into(),
            )),
        }
    }

    /// After a rollback to a savepoint: what came after it never happened.
    pub(crate) fn forget_errors(&self) {
        let mut seen = self.lock();
        if matches!(*seen, Some(Seen::Error(..))) {
            *seen = None;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future or stream of a connection, with every error of it told to the watch.
pub struct Watched<F> {
    pub(crate) inner: F,
    pub(crate) watch: Arc<Watch>,
}

impl<F, T> Future for Watched<F>
where
    F: Future<Output = QueryResult<T>> + Unpin,
{
    type Output = QueryResult<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = std::task::ready!(Pin::new(&mut self.inner).poll(cx));
        if let Err(error) = &result {
            self.watch.failed(error);
        }
        Poll::Ready(result)
    }
}

impl<S, T> Stream for Watched<S>
where
    S: Stream<Item = QueryResult<T>> + Unpin,
{
    type Item = QueryResult<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let row = std::task::ready!(Pin::new(&mut self.inner).poll_next(cx));
        if let Some(Err(error)) = &row {
            self.watch.failed(error);
        }
        Poll::Ready(row)
    }
}
