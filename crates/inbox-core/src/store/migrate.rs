//! Numbered, embedded schema changes, the same numbers for every database.

use std::cmp::Ordering;

/// One numbered change of the schema, with its way back.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number: they run in this order, from 1, without gaps.
    pub number: i32,
    /// What it does, in words joined by `_`.
    pub name: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
}

/// What the database has of the migrations this version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationStatus {
    /// The highest number applied; 0 for none.
    pub applied: i32,
    /// The highest number known.
    pub known: i32,
}

impl MigrationStatus {
    /// Why this version of the inbox cannot work with that schema, if it cannot.
    pub(crate) fn problem(self) -> Option<String> {
        let Self { applied, known } = self;
        match applied.cmp(&known) {
            Ordering::Equal => None,
            Ordering::Less => Some(format!(
                "the inbox's schema is at migration {applied}, this version needs {known}: call \
                 `store.migrate().await?` once before consuming"
            )),
            Ordering::Greater => Some(format!(
                "the inbox's schema is at migration {applied}, newer than the {known} this version knows: update \
                 the service"
            )),
        }
    }
}
