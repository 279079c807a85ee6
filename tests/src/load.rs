//! Records sent on purpose, and records sent all the time while a test breaks things.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::job::{Act, Job};
use crate::kafka::{FreshTopic, Outgoing, Producer};
use crate::oracle::Sent;

/// A job on its way: partition, id, and the job.
pub type Draft = (i32, String, Job);

/// Sends jobs and returns where they are.
#[must_use]
pub fn send(topic: &FreshTopic, drafts: &[Draft]) -> Vec<Sent> {
    send_by(&Producer::new(topic), drafts)
}

/// Sends jobs by a producer that is there already.
#[must_use]
pub fn send_by(producer: &Producer, drafts: &[Draft]) -> Vec<Sent> {
    let records: Vec<Outgoing> =
        drafts.iter().map(|(partition, id, job)| job.outgoing(*partition, id)).collect();
    let offsets = producer.send(&records);
    drafts
        .iter()
        .zip(offsets)
        .map(|((partition, id, _), offset)| Sent { id: id.clone(), partition: *partition, offset })
        .collect()
}

/// So many messages with distinct ids over so many keys; a key has its partition.
#[must_use]
pub fn notes(prefix: &str, messages: usize, keys: usize, partitions: i32) -> Vec<Draft> {
    (0..messages)
        .map(|number| {
            let key = number % keys;
            (partition_of(key, partitions), format!("{prefix}-{number}"), Job::note(&format!("key-{key}")))
        })
        .collect()
}

fn partition_of(key: usize, partitions: i32) -> i32 {
    i32::try_from(key).unwrap_or_default() % partitions
}

/// The seed of this run: from `INBOX_TEST_SEED`, or a new one. Printed, so that a run that failed can
/// be run again.
#[must_use]
pub fn seed() -> u64 {
    let seed = std::env::var("INBOX_TEST_SEED")
        .ok()
        .map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("INBOX_TEST_SEED is a number"));
    eprintln!("INBOX_TEST_SEED={seed} repeats this run's choices");
    seed
}

/// What a [`Load`] sends.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Distinct business keys.
    pub keys: usize,
    /// Records per second.
    pub per_second: usize,
    /// One in so many records is sent again later; half of those in another partition.
    pub resends: usize,
    /// One job in so many fails at some of its attempts; none with zero.
    pub failing: usize,
    /// What each job does.
    pub acts: Vec<Act>,
    /// Of its random choices.
    pub seed: u64,
}

impl Default for LoadPlan {
    fn default() -> Self {
        Self { keys: 40, per_second: 400, resends: 20, failing: 0, acts: vec![Act::Note], seed: 1 }
    }
}

/// Sends records until it is stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Sent>>>,
}

impl Load {
    /// Begins.
    #[must_use]
    pub fn start(topic: &FreshTopic, plan: LoadPlan) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, partitions, producer) = (Arc::clone(&stop), topic.partitions(), Producer::new(topic));
        let thread = std::thread::spawn(move || send_until(&stopped, &producer, partitions, &plan));
        Self { stop, thread: Some(thread) }
    }

    /// Ends, and returns where everything is. Blocks until the broker has it.
    #[must_use]
    pub fn stop(mut self) -> Vec<Sent> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("everything could be sent")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn send_until(stopped: &AtomicBool, producer: &Producer, partitions: i32, plan: &LoadPlan) -> Vec<Sent> {
    const ROUND: Duration = Duration::from_millis(50);
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut sent = Vec::new();
    let mut first: BTreeMap<usize, Draft> = BTreeMap::new();
    let mut number = 0;
    while !stopped.load(Ordering::Acquire) {
        let mut drafts = Vec::new();
        for _ in 0..(plan.per_second / 20).max(1) {
            if number > 0 && random.usize(..plan.resends) == 0 {
                let (partition, id, job) = first[&random.usize(..number)].clone();
                let elsewhere = if random.bool() { partition } else { random.i32(0..partitions) };
                drafts.push((elsewhere, id, job));
                continue;
            }
            let key = random.usize(..plan.keys);
            let mut acts = plan.acts.clone();
            if plan.failing > 0 && random.usize(..plan.failing) == 0 {
                acts.push(Act::FailUntil(random.u32(2..7)));
            }
            let job = Job::of(&format!("key-{key}"), acts);
            let draft = (partition_of(key, partitions), format!("load-{number}"), job);
            first.insert(number, draft.clone());
            drafts.push(draft);
            number += 1;
        }
        sent.extend(send_by(producer, &drafts));
        std::thread::sleep(ROUND);
    }
    sent
}
