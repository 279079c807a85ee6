//! Everything is checked before the first message.

use std::collections::HashSet;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::store::{Database, RegisterError, StoreError};
use crate::subscription::DefinitionError;

use super::builder::Inbox;

/// Why an inbox did not start. Nothing was consumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No handler was added.
    #[error("the inbox has no handler: add one with `.handle(…)` or `.handle_batch(…)`")]
    NoHandler,
    /// Two handlers have the same subscription name, and with it the same receipts.
    #[error("two handlers have the subscription name {0}: each needs a name of its own")]
    SameName(String),
    /// A subscription's definition cannot work.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A setting cannot work.
    #[error("setting {0}")]
    Setting(String),
    /// The runtime has one thread.
    #[error(
        "the inbox needs a multi-thread tokio runtime: write `#[tokio::main]`, or build one with \
         `Builder::new_multi_thread()`"
    )]
    CurrentThreadRuntime,
    /// The subscription is recorded otherwise.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<Db: Database> Inbox<Db> {
    /// Checks what can be checked without the database.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), StartError> {
        if Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::CurrentThread) {
            return Err(StartError::CurrentThreadRuntime);
        }
        if self.runners.is_empty() {
            return Err(StartError::NoHandler);
        }
        if let Some(problem) = self.settings.problem() {
            return Err(StartError::Setting(problem));
        }
        let mut names = HashSet::new();
        for runner in &self.runners {
            runner.check()?;
            if !names.insert(runner.name()) {
                return Err(StartError::SameName(runner.name().to_string()));
            }
        }
        Ok(())
    }
}
