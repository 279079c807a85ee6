//! Whatever fails, waits, is swept or comes in between: units of one order run in their order.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
struct Item {
    subscription: usize,
    order: u64,
    arrival: u64,
    burial: bool,
    over: Rc<Cell<bool>>,
}

impl Waiting for Item {
    fn subscription(&self) -> usize {
        self.subscription
    }
    fn order(&self) -> u64 {
        self.order
    }
    fn arrival(&self) -> u64 {
        self.arrival
    }
    fn bytes(&self) -> usize {
        10
    }
    fn is_over(&self) -> bool {
        self.over.get()
    }
    fn kind(&self) -> Kind {
        if self.burial { Kind::Burial } else { Kind::Message }
    }
}

/// What happens to a lane's queue.
#[derive(Clone, Debug)]
enum Step {
    Push {
        subscription: usize,
        order: u64,
        burial: bool,
    },
    /// Take a batch of at most this size; the unit at `fails` (if within) fails once.
    Run {
        size: usize,
        fails: usize,
    },
    Wait,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (0..2_usize, 0..4_u64, proptest::bool::weighted(0.1))
        .prop_map(|(subscription, order, burial)| Step::Push { subscription, order, burial });
    let run = (1..6_usize, 0..8_usize).prop_map(|(size, fails)| Step::Run { size, fails });
    proptest::collection::vec(prop_oneof![6 => push, 3 => run, 1 => Just(Step::Wait)], 1..200)
}

struct Model {
    queue: Queue<Item>,
    arrivals: u64,
    ended: HashMap<(usize, u64), Vec<u64>>,
}

impl Model {
    fn new() -> Self {
        Self { queue: Queue::new(2), arrivals: 0, ended: HashMap::new() }
    }

    fn push(&mut self, subscription: usize, order: u64, burial: bool) -> Item {
        let item = Item { subscription, order, arrival: self.arrivals, burial, over: Rc::default() };
        self.arrivals += 1;
        self.queue.push(item.clone());
        item
    }

    /// As a lane does it: runs units in order, defers those behind a failed one.
    fn run(&mut self, size: usize, fails: usize) -> bool {
        let Some(batch) = self.queue.take(|_| BatchLimits { units: size, bytes: usize::MAX }) else {
            return false;
        };
        assert!(
            batch
                .iter()
                .all(|item| item.burial == batch[0].burial && item.subscription == batch[0].subscription)
        );
        for (at, item) in batch.into_iter().enumerate() {
            if self.queue.is_blocked(&item) {
                self.queue.defer(item);
            } else if at == fails {
                self.queue.block(item, Duration::from_secs(1));
            } else {
                self.ended.entry((item.subscription, item.order)).or_default().push(item.arrival);
            }
        }
        true
    }
}

proptest! {
    #[test]
    fn any_interleaving_keeps_the_order_of_each_key(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let mut model = Model::new();
            for step in steps {
                match step {
                    Step::Push { subscription, order, burial } => { model.push(subscription, order, burial); }
                    Step::Run { size, fails } => { model.run(size, fails); }
                    Step::Wait => tokio::time::advance(Duration::from_secs(2)).await,
                }
            }
            tokio::time::advance(Duration::from_secs(2)).await;
            while model.run(3, usize::MAX) {}
            prop_assert_eq!(model.queue.next_due(), None);
            let ended: usize = model.ended.values().map(Vec::len).sum();
            prop_assert_eq!(u64::try_from(ended).expect("few"), model.arrivals, "a unit was lost or ran twice");
            for (order, arrivals) in &model.ended {
                prop_assert!(arrivals.is_sorted(), "{:?} ran as {:?}", order, arrivals);
            }
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_delays_no_other() {
    let mut model = Model::new();
    for order in [1, 1, 2, 1, 3] {
        model.push(0, order, false);
    }
    assert!(model.run(1, 0));
    assert!(model.run(10, usize::MAX));
    assert_eq!(model.ended.get(&(0, 1)), None);
    assert_eq!(model.ended[&(0, 2)], [2]);
    assert_eq!(model.ended[&(0, 3)], [4]);
    assert!(!model.run(10, usize::MAX), "key 1 is not due yet");
    tokio::time::advance(Duration::from_secs(1)).await;
    while model.run(10, usize::MAX) {}
    assert_eq!(model.ended[&(0, 1)], [0, 1, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_takes_out_what_is_over_wherever_it_waits() {
    let mut model = Model::new();
    let items: Vec<Item> = [1, 1, 2].into_iter().map(|order| model.push(0, order, false)).collect();
    assert!(model.run(1, 0));
    items[0].over.set(true);
    items[2].over.set(true);
    let swept: Vec<u64> = model.queue.sweep().iter().map(|item| item.arrival).collect();
    assert_eq!(swept, [2, 0]);
    tokio::time::advance(Duration::from_secs(1)).await;
    while model.run(1, usize::MAX) {}
    assert_eq!(model.ended[&(0, 1)], [1]);
}

#[test]
fn byte_limits_bound_a_batch_but_one_unit_always_runs() {
    let mut model = Model::new();
    for _ in 0..5 {
        model.push(0, 1, false);
    }
    let sizes = |bytes| BatchLimits { units: 100, bytes };
    assert_eq!(model.queue.take(|_| sizes(25)).map(|batch| batch.len()), Some(2));
    assert_eq!(model.queue.take(|_| sizes(1)).map(|batch| batch.len()), Some(1));
}

#[tokio::test(start_paused = true)]
async fn only_a_short_batch_is_worth_waiting_for() {
    let mut model = Model::new();
    let is_short = |model: &Model| model.queue.is_short(|_| BatchLimits { units: 2, bytes: 100 });
    assert!(!is_short(&model), "nothing waits at all");
    model.push(0, 1, false);
    assert!(is_short(&model));
    model.push(0, 2, false);
    assert!(!is_short(&model), "it is full");
    assert!(model.run(1, 0));
    assert!(is_short(&model));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!is_short(&model), "a key whose wait is over runs alone, at once");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_without_room_waits_with_all_it_has() {
    let mut model = Model::new();
    for (subscription, order) in [(0, 1), (0, 2), (1, 3)] {
        model.push(subscription, order, false);
    }
    assert!(model.run(1, 0));
    tokio::time::advance(Duration::from_secs(2)).await;
    let only = |wanted| move |n| BatchLimits { units: usize::from(n == wanted), bytes: 100 };
    assert_eq!(model.queue.take(only(1)).map(|batch| batch[0].order), Some(3));
    assert!(model.queue.take(only(1)).is_none(), "one is due, and one waits");
    assert_eq!(model.queue.take(only(0)).map(|batch| batch[0].order), Some(1));
    assert_eq!(model.queue.take(only(0)).map(|batch| batch[0].order), Some(2));
    assert!(model.queue.is_idle());
}

#[test]
fn subscriptions_take_turns() {
    let mut model = Model::new();
    for subscription in [0, 0, 0, 1] {
        model.push(subscription, 1, false);
    }
    let mut turns = Vec::new();
    while let Some(batch) = model.queue.take(|_| BatchLimits { units: 1, bytes: 100 }) {
        turns.push(batch[0].subscription);
    }
    assert_eq!(turns, [0, 1, 0, 0]);
}
