//! The suite that every database passes: one file per transition.
