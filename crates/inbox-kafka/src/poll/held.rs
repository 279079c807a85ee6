//! A partition that the group gave to this member.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use inbox_core::inbox::{Ended, FlushRequest, Owner};
use inbox_core::store::LastRecord;
use inbox_core::{Offset, Timestamp};
use rdkafka::consumer::base_consumer::PartitionQueue;

use crate::context::Context;
use crate::tracker::{Tracker, find};

/// Where a partition of this member is on its way.
pub(super) enum Held {
    /// Its epoch is being raised. Nothing is fetched of it. The number tells claims apart.
    Claiming(u64),
    /// It is consumed.
    Running(Box<Running>),
    /// Another epoch was found: if the group still means us then, it is claimed again.
    Resting(Instant),
    /// The database is down.
    Paused,
    /// It waits for a person, and is looked at again then.
    Stopped(Instant),
}

/// A partition that is consumed.
pub(super) struct Running {
    pub(super) owner: Arc<Owner>,
    pub(super) queue: PartitionQueue<Context>,
    /// One per subscription, by its index in the engine.
    trackers: Vec<(usize, Tracker)>,
    /// The last record that was finished before this ownership, until its place was passed.
    recognise: Option<LastRecord>,
    /// Records delivered but not below the flushed watermark, whether finished or not, with the
    /// bytes of those that are not finished.
    window: VecDeque<(Offset, Option<Timestamp>)>,
    unfinished: VecDeque<(Offset, usize, u32)>,
    bytes: usize,
    next: Offset,
    /// Units that have not ended.
    pub(super) outstanding: usize,
    /// What the next flush must expect.
    number: i64,
    /// A flush was sent and not answered.
    flushing: bool,
    /// What the client was told to commit.
    stored: Option<Offset>,
    /// The client's position is one of this ownership, not what an earlier one has left behind.
    position_is_ours: bool,
}

impl Running {
    pub(super) fn new(
        owner: Arc<Owner>,
        queue: PartitionQueue<Context>,
        recognise: Option<LastRecord>,
    ) -> Self {
        let trackers = owner.watermarks().iter().map(|(index, w)| (*index, Tracker::new(*w))).collect();
        Self {
            next: owner.start(),
            number: owner.flush_number(),
            stored: None,
            trackers,
            owner,
            queue,
            recognise,
            window: VecDeque::new(),
            unfinished: VecDeque::new(),
            bytes: 0,
            outstanding: 0,
            flushing: false,
            position_is_ours: false,
        }
    }

    /// Where the client begins: one record before the first that is wanted, if that one tells whether it
    /// is the same log.
    pub(super) fn from(&self) -> Offset {
        self.recognise.map_or(self.next, |last| last.offset.min(self.next))
    }

    /// A record comes: if it is at the place of the last finished one, is it that one? One that is gone,
    /// by compaction, tells nothing.
    pub(super) fn recognises(&mut self, offset: Offset, time: Option<Timestamp>) -> Result<(), LastRecord> {
        match self.recognise.take_if(|last| offset >= last.offset) {
            Some(last) if offset == last.offset && time != Some(last.time) => Err(last),
            _ => Ok(()),
        }
    }

    /// The offset that must not be delivered twice: the one after the last delivered record.
    pub(super) fn next(&self) -> Offset {
        self.next
    }

    pub(super) fn has_room(&self, records: usize, bytes: usize) -> bool {
        self.window.is_empty() || (self.window.len() < records && self.bytes < bytes)
    }

    /// Whether half of the budget waits for a flush.
    pub(super) fn wants_flush(&self, records: usize) -> bool {
        !self.flushing && self.window.len() >= records / 2 && self.trackers.iter().any(|(_, t)| t.moved())
    }

    /// A record was delivered; `made` are the subscriptions it made a unit for.
    pub(super) fn delivered(&mut self, offset: Offset, time: Option<Timestamp>, size: usize, made: &[usize]) {
        self.window.push_back((offset, time));
        self.next = offset.next();
        self.position_is_ours = true;
        for (index, tracker) in &mut self.trackers {
            if made.contains(index) {
                tracker.unit(offset, time);
            } else {
                tracker.pass(offset);
            }
        }
        if let Ok(units) = u32::try_from(made.len())
            && units > 0
        {
            self.unfinished.push_back((offset, size, units));
            self.bytes += size;
            self.outstanding += made.len();
        }
    }

    /// Where the client is: behind the last delivered record, or further, behind transaction markers
    /// and aborted records, which it passes and never delivers. `None` until it has passed anything.
    pub(super) fn reached(&mut self, position: Option<Offset>) {
        match position {
            None => self.position_is_ours = true,
            Some(position) if self.position_is_ours => {
                self.trackers.iter_mut().for_each(|(_, tracker)| tracker.reached(position));
            }
            Some(_) => {}
        }
    }

    pub(super) fn ended(&mut self, ended: &Ended) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if !ended.end().is_finished() {
            return;
        }
        if let Some((_, tracker)) = self.trackers.iter_mut().find(|(index, _)| *index == ended.subscription())
        {
            tracker.finish(ended.offset());
        }
        if let Some(at) = find(&self.unfinished, ended.offset(), |(offset, _, _)| *offset) {
            let (_, size, units) = &mut self.unfinished[at];
            *units = units.saturating_sub(1);
            if *units == 0 {
                self.bytes = self.bytes.saturating_sub(std::mem::take(size));
            }
        }
        while self.unfinished.front().is_some_and(|(_, _, units)| *units == 0) {
            self.unfinished.pop_front();
        }
    }

    /// What is to be written down, if any watermark moved and no answer is waited for.
    pub(super) fn flush(&mut self) -> Option<FlushRequest> {
        if self.flushing {
            return None;
        }
        let watermarks: Vec<_> = self
            .trackers
            .iter()
            .filter(|(_, tracker)| tracker.moved())
            .map(|(index, tracker)| (*index, tracker.watermark(), tracker.time()))
            .collect();
        if watermarks.is_empty() {
            return None;
        }
        self.flushing = true;
        let last = self.last_finished();
        Some(FlushRequest { owner: Arc::clone(&self.owner), number: self.number, watermarks, last })
    }

    /// The last delivered record below all watermarks.
    fn last_finished(&self) -> Option<LastRecord> {
        let lowest = self.trackers.iter().map(|(_, tracker)| tracker.watermark()).min()?;
        let finished = self.window.partition_point(|(offset, _)| *offset < lowest);
        let (offset, time) = *self.window.get(finished.checked_sub(1)?)?;
        Some(LastRecord { offset, time: time? })
    }

    /// A flush of these watermarks was written under this number.
    pub(super) fn flushed(&mut self, number: i64, watermarks: &[(usize, Offset, Option<Timestamp>)]) {
        self.number = number;
        for (index, watermark, _) in watermarks {
            if let Some((_, tracker)) = self.trackers.iter_mut().find(|(i, _)| i == index) {
                tracker.flushed(*watermark);
            }
        }
        let written = self.written();
        while self.window.front().is_some_and(|(offset, _)| *offset < written) {
            self.window.pop_front();
        }
    }

    /// The flush that was sent is answered, or failed and comes again with the next one.
    pub(super) fn flush_ended(&mut self) {
        self.flushing = false;
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.flushing
    }

    /// The lowest watermark that the database has: what Kafka may be given.
    pub(super) fn written(&self) -> Offset {
        self.trackers.iter().map(|(_, tracker)| tracker.written()).min().unwrap_or(self.owner.start())
    }

    /// What the client is to commit, if it does not know it yet: the offset and the number beside it.
    pub(super) fn to_store(&self) -> Option<(Offset, i64)> {
        let written = self.written();
        (self.stored != Some(written)).then_some((written, self.number))
    }

    /// The client commits this until Kafka has it.
    pub(super) fn stored(&mut self, offset: Offset) {
        self.stored = Some(offset);
    }
}
