//! What waits in a lane: in order per key, whatever happens in between (P3).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// What the queue needs to know of a unit.
pub(super) trait Waiting {
    /// The subscription's index.
    fn subscription(&self) -> usize;
    /// Units of one order run one after the other, as they came.
    fn order(&self) -> u64;
    /// Its number among all units of the lane.
    fn arrival(&self) -> u64;
    /// What it counts against the byte limit of a batch.
    fn bytes(&self) -> usize;
    /// Whether its ownership is over.
    fn is_over(&self) -> bool;
    /// Only units of one kind share a transaction.
    fn kind(&self) -> Kind;
}

/// What is to be done with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Handled.
    Message,
    /// An open row, whatever is to be done with it: alone.
    Head,
    /// Written down as an open row.
    Parking,
    /// Buried.
    Burial,
}

/// How large the next batch of a subscription may be. With no units it has no turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchLimits {
    pub(super) units: usize,
    pub(super) bytes: usize,
}

/// The units of a lane that do not run now.
pub(super) struct Queue<U> {
    waiting: Vec<VecDeque<U>>,
    blocked: HashMap<(usize, u64), Blocked<U>>,
    /// Whose turn it is, so that one busy subscription does not starve the others.
    next: usize,
}

/// A key whose first unit failed: it waits until it is due, and the others behind it.
struct Blocked<U> {
    due: Instant,
    units: VecDeque<U>,
}

impl<U: Waiting> Queue<U> {
    pub(super) fn new(subscriptions: usize) -> Self {
        Self {
            waiting: (0..subscriptions).map(|_| VecDeque::new()).collect(),
            blocked: HashMap::new(),
            next: 0,
        }
    }

    /// Adds a unit that came after all others of its order.
    pub(super) fn push(&mut self, unit: U) {
        match self.blocked.get_mut(&place(&unit)) {
            Some(blocked) => blocked.units.push_back(unit),
            None => self.waiting[unit.subscription()].push_back(unit),
        }
    }

    /// Takes back a unit that was taken but must wait behind a blocked one of its order: to its
    /// place by arrival, before what came later and was blocked already.
    pub(super) fn defer(&mut self, unit: U) {
        match self.blocked.get_mut(&place(&unit)) {
            Some(blocked) => {
                let at = blocked.units.partition_point(|other| other.arrival() < unit.arrival());
                blocked.units.insert(at, unit);
            }
            None => self.waiting[unit.subscription()].push_front(unit),
        }
    }

    /// The unit failed and is to run again after this wait; what follows it in its order waits too.
    ///
    /// The unit must be the first of its order that has not ended.
    pub(super) fn block(&mut self, unit: U, wait: Duration) {
        let (subscription, order) = place(&unit);
        let due = Instant::now() + wait;
        let blocked = self
            .blocked
            .entry((subscription, order))
            .or_insert_with(|| Blocked { due, units: VecDeque::new() });
        blocked.due = due;
        // What waited in the common queue came after whatever is blocked already.
        let waiting = &mut self.waiting[subscription];
        if waiting.iter().any(|other| other.order() == order) {
            let (same, others) =
                std::mem::take(waiting).into_iter().partition(|other| other.order() == order);
            *waiting = others;
            let same: VecDeque<U> = same;
            blocked.units.extend(same);
        }
        blocked.units.push_front(unit);
    }

    /// Whether a unit of this order must wait behind another one.
    pub(super) fn is_blocked(&self, unit: &U) -> bool {
        self.blocked.contains_key(&place(unit))
    }

    /// The next batch: a due unit alone, or what waits for the next subscription in turn.
    pub(super) fn take(&mut self, limits: impl Fn(usize) -> BatchLimits) -> Option<Vec<U>> {
        if let Some(unit) = self.take_due(&limits) {
            return Some(vec![unit]);
        }
        let turn = self.turn(&limits)?;
        self.next = (turn + 1) % self.waiting.len();
        Some(self.take_from(turn, limits(turn)))
    }

    /// Whether the next batch would have fewer units than it may. Not if a unit is due, or none waits.
    pub(super) fn is_short(&self, limits: impl Fn(usize) -> BatchLimits) -> bool {
        let now = Instant::now();
        self.turn(&limits).is_some_and(|turn| self.waiting[turn].len() < limits(turn).units)
            && !self.blocked.values().any(|blocked| blocked.due <= now)
    }

    /// Whose turn it is, of those for whom something waits and that may run something.
    fn turn(&self, limits: impl Fn(usize) -> BatchLimits) -> Option<usize> {
        let subscriptions = self.waiting.len();
        (0..subscriptions)
            .map(|n| (self.next + n) % subscriptions)
            .find(|&n| !self.waiting[n].is_empty() && limits(n).units > 0)
    }

    /// Whether nothing waits but for a retry.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    fn take_from(&mut self, subscription: usize, limits: BatchLimits) -> Vec<U> {
        let waiting = &mut self.waiting[subscription];
        let mut batch = Vec::with_capacity(limits.units.min(waiting.len()));
        let mut bytes = 0;
        while let Some(next) = waiting.front() {
            bytes += next.bytes();
            let full = batch.len() >= limits.units || bytes > limits.bytes;
            let other_kind = batch
                .first()
                .is_some_and(|first: &U| first.kind() != next.kind() || first.kind() == Kind::Head);
            if !batch.is_empty() && (full || other_kind) {
                break;
            }
            batch.extend(waiting.pop_front());
        }
        batch
    }

    /// The first unit of a key whose wait is over; what is behind it goes to the front of the queue.
    ///
    /// It is taken out alone and the lane runs nothing else meanwhile, so nothing overtakes.
    fn take_due(&mut self, limits: impl Fn(usize) -> BatchLimits) -> Option<U> {
        let now = Instant::now();
        let may_run =
            |(place, blocked): &(&(usize, u64), &Blocked<U>)| blocked.due <= now && limits(place.0).units > 0;
        let (&place, _) = self.blocked.iter().filter(may_run).min_by_key(|(_, blocked)| blocked.due)?;
        let mut blocked = self.blocked.remove(&place)?;
        let unit = blocked.units.pop_front();
        let waiting = &mut self.waiting[place.0];
        for unit in blocked.units.into_iter().rev() {
            waiting.push_front(unit);
        }
        unit
    }

    /// When the next blocked key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.blocked.values().map(|blocked| blocked.due).min()
    }

    /// Takes out every unit whose ownership is over.
    pub(super) fn sweep(&mut self) -> Vec<U> {
        let mut over = Vec::new();
        let mut keep = |units: &mut VecDeque<U>| {
            if units.iter().any(Waiting::is_over) {
                let (gone, kept): (Vec<U>, VecDeque<U>) = std::mem::take(units).into_iter().fold(
                    (Vec::new(), VecDeque::new()),
                    |(mut gone, mut kept), unit| {
                        if unit.is_over() {
                            gone.push(unit);
                        } else {
                            kept.push_back(unit);
                        }
                        (gone, kept)
                    },
                );
                *units = kept;
                over.extend(gone);
            }
        };
        self.waiting.iter_mut().for_each(&mut keep);
        self.blocked.values_mut().for_each(|blocked| keep(&mut blocked.units));
        self.blocked.retain(|_, blocked| !blocked.units.is_empty());
        over
    }
}

fn place<U: Waiting>(unit: &U) -> (usize, u64) {
    (unit.subscription(), unit.order())
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
