//! Which statements of handlers a connection has prepared.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// The texts of the statements that handlers had prepared on a connection, as hashes: the cache of
/// the driver has no bound of its own, so the connection empties it between transactions when there
/// are too many.
#[derive(Debug, Default)]
pub(crate) struct KeptStatements(Mutex<HashSet<u64>>);

impl KeptStatements {
    /// How many distinct statements a connection keeps prepared.
    pub(crate) const MOST: usize = 256;

    pub(super) fn keep(&self, sql: &str) {
        let mut hasher = DefaultHasher::new();
        sql.hash(&mut hasher);
        self.lock().insert(hasher.finish());
    }

    /// Whether it is time to empty the driver's cache; forgets them if so.
    pub(crate) fn overflowed(&self) -> bool {
        let mut kept = self.lock();
        let too_many = kept.len() > Self::MOST;
        if too_many {
            kept.clear();
        }
        too_many
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
