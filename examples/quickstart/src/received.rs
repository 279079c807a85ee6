//! Where the records of a worker began: what its parent wants to know of it and cannot find in the
//! database.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use inbox::Record;

/// Per partition the first offset that this process has received. From there on it receives every
/// record, so this says what came again.
pub(crate) type FirstOffsets = BTreeMap<i32, i64>;

/// Notes the first offset of each partition.
#[derive(Clone, Default)]
pub(crate) struct Received(Arc<Mutex<FirstOffsets>>);

impl Received {
    /// A filter for a subscription that sees every record and wants every record.
    pub(crate) fn watch(&self) -> impl Fn(&Record) -> bool + Send + Sync + 'static {
        let first = Arc::clone(&self.0);
        move |record| {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            let offset = first.entry(record.partition().0).or_insert(record.offset().0);
            *offset = record.offset().0.min(*offset);
            true
        }
    }

    pub(crate) fn first_offsets(&self) -> FirstOffsets {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
