//! One attempt: the handlers of a batch inside its open transaction, and what came of it.

mod attempt;
mod guarded;
mod in_sequence;

pub use attempt::{Attempt, AttemptEnd, Chain};
#[cfg(feature = "postgres")]
pub(crate) use guarded::caught;
pub(crate) use guarded::{guarded, judge};
pub(crate) use in_sequence::{all_at_once, in_sequence};
