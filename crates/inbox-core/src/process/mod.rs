//! One attempt: the handlers of a batch inside its open transaction, and what came of it.

mod attempt;
mod guarded;

pub use attempt::{Attempt, AttemptEnd, Chain};
pub(crate) use guarded::{guarded, judge};
