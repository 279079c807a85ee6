//! The watermark of one subscription in one partition, over delivered records (P2).

use std::collections::VecDeque;

use inbox_core::{Offset, Timestamp};

/// Which delivered records are not finished. Offsets may have gaps: transaction markers, aborted and
/// compacted records are never delivered, and what a filter rejects makes no unit.
#[derive(Debug)]
pub(crate) struct Tracker {
    /// Units in offset order, from the first that is not finished.
    units: VecDeque<Delivered>,
    /// The offset after the last delivered record, or after what is never delivered behind it.
    position: Offset,
    /// The timestamp of the record that was finished last, in the order of the log.
    time: Option<Timestamp>,
    flushed: Offset,
}

#[derive(Debug)]
struct Delivered {
    offset: Offset,
    time: Option<Timestamp>,
    finished: bool,
}

impl Tracker {
    /// Everything below this watermark is finished and written down.
    pub(crate) fn new(watermark: Offset) -> Self {
        Self { units: VecDeque::new(), position: watermark, time: None, flushed: watermark }
    }

    /// A record was delivered that made a unit.
    pub(crate) fn unit(&mut self, offset: Offset, time: Option<Timestamp>) {
        self.units.push_back(Delivered { offset, time, finished: false });
        self.pass(offset);
    }

    /// A record was delivered, whether it made a unit or not.
    pub(crate) fn pass(&mut self, offset: Offset) {
        self.position = self.position.max(offset.next());
    }

    /// Whatever lies below this offset was delivered, or never will be.
    pub(crate) fn reached(&mut self, position: Offset) {
        self.position = self.position.max(position);
    }

    /// A unit ended and is durable.
    pub(crate) fn finish(&mut self, offset: Offset) {
        if let Some(at) = find(&self.units, offset, |unit| unit.offset) {
            self.units[at].finished = true;
        }
        while let Some(unit) = self.units.front()
            && unit.finished
        {
            self.time = unit.time.or(self.time);
            self.units.pop_front();
        }
    }

    /// Every record below it is finished: the first unit that is not, or, with nothing unfinished,
    /// the position.
    pub(crate) fn watermark(&self) -> Offset {
        self.units.front().map_or(self.position, |unit| unit.offset)
    }

    pub(crate) fn time(&self) -> Option<Timestamp> {
        self.time
    }

    /// Whether the watermark moved since it was last written.
    pub(crate) fn moved(&self) -> bool {
        self.watermark() > self.flushed
    }

    /// This watermark was written.
    pub(crate) fn flushed(&mut self, watermark: Offset) {
        self.flushed = self.flushed.max(watermark);
    }

    /// The last watermark written.
    pub(crate) fn written(&self) -> Offset {
        self.flushed
    }
}

/// Where an offset is among sorted ones: mostly as far behind the first as it says, since gaps are rare.
pub(crate) fn find<T>(sorted: &VecDeque<T>, offset: Offset, of: impl Fn(&T) -> Offset) -> Option<usize> {
    let distance = usize::try_from(offset.0 - of(sorted.front()?).0).ok()?;
    if sorted.get(distance).is_some_and(|there| of(there) == offset) {
        return Some(distance);
    }
    sorted.binary_search_by_key(&offset, of).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_at_the_end_are_passed() {
        let mut tracker = Tracker::new(Offset(10));
        assert_eq!(tracker.watermark(), Offset(10));
        tracker.unit(Offset(12), Some(Timestamp(5)));
        tracker.pass(Offset(20));
        assert_eq!(tracker.watermark(), Offset(12));
        tracker.finish(Offset(12));
        assert_eq!((tracker.watermark(), tracker.time()), (Offset(21), Some(Timestamp(5))));
        assert!(tracker.moved());
        tracker.flushed(Offset(21));
        assert!(!tracker.moved());
        tracker.unit(Offset(23), None);
        tracker.reached(Offset(30));
        assert_eq!(tracker.watermark(), Offset(23));
        tracker.finish(Offset(23));
        tracker.reached(Offset(25));
        assert_eq!(tracker.watermark(), Offset(30));
    }

    #[test]
    fn offsets_are_found_in_a_log_with_gaps() {
        let offsets: VecDeque<Offset> = [3, 4, 5, 9, 11, 12].map(Offset).into();
        for (at, offset) in offsets.iter().enumerate() {
            assert_eq!(find(&offsets, *offset, |offset| *offset), Some(at));
        }
        for missing in [2, 6, 10, 13] {
            assert_eq!(find(&offsets, Offset(missing), |offset| *offset), None);
        }
    }

    #[test]
    fn an_end_of_what_is_not_there_changes_nothing() {
        let mut tracker = Tracker::new(Offset(0));
        tracker.unit(Offset(0), None);
        tracker.finish(Offset(7));
        assert_eq!(tracker.watermark(), Offset(0));
    }

    proptest! {
        /// In any order of completion, with any gaps: the watermark is the lowest unfinished unit,
        /// it never goes back, and it ends at the position.
        #[test]
        fn the_watermark_is_the_lowest_unfinished_unit(
            gaps in proptest::collection::vec((1..4_i64, any::<bool>()), 1..80),
            seed in any::<u64>(),
        ) {
            let mut tracker = Tracker::new(Offset(0));
            let mut unfinished = std::collections::BTreeSet::new();
            let (mut next, mut position) = (0, Offset(0));
            for (gap, makes_unit) in gaps {
                let offset = Offset(next + gap - 1);
                next = offset.0 + 1;
                position = offset.next();
                if makes_unit {
                    tracker.unit(offset, None);
                    unfinished.insert(offset);
                } else {
                    tracker.pass(offset);
                }
            }
            let mut order: Vec<Offset> = unfinished.iter().copied().collect();
            let mut state = seed | 1;
            order.sort_by_cached_key(|_| { state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1); state >> 33 });
            let mut before = tracker.watermark();
            for offset in order {
                tracker.finish(offset);
                unfinished.remove(&offset);
                let watermark = tracker.watermark();
                prop_assert_eq!(watermark, unfinished.first().copied().unwrap_or(position));
                prop_assert!(watermark >= before);
                before = watermark;
            }
            prop_assert_eq!(tracker.watermark(), position);
        }
    }
}
