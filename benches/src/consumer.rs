//! Reading the topic by hand: one consumer, a queue per partition, offsets stored after the commit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diesel_async::AsyncPgConnection;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, DefaultConsumerContext};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::cases::Finished;
use crate::env::Env;
use crate::workload::{PARTITIONS, Prefix, Transfer};
use crate::{Result, database};

/// A consumer that has read nothing for this long has lost its partition, or the bench is wrong.
const PATIENCE: Duration = Duration::from_mins(1);

/// A group per case, so that each reads the topic from its start.
pub(crate) fn group(env: &Env, case: &str) -> String {
    format!("{}-{case}", env.topic)
}

/// A consumer that is not subscribed yet; its offsets are committed once a second, as far as stored.
pub(crate) fn consumer(env: &Env, case: &str) -> Result<BaseConsumer> {
    Ok(ClientConfig::new()
        .set("bootstrap.servers", &env.brokers)
        .set("group.id", group(env, case))
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.offset.store", "false")
        .set("enable.auto.commit", "true")
        .set("auto.commit.interval.ms", "1000")
        // The default of a second is a pause each time a queue was full.
        .set("fetch.queue.backoff.ms", "10")
        // Per partition: enough for ten batches ahead, and small in memory.
        .set("queued.min.messages", "5000")
        .set("queued.max.messages.kbytes", "4096")
        .create()?)
}

/// From the first record on, for a limited time if the case is a slow one.
#[derive(Clone)]
pub(crate) struct Stopwatch {
    started: Arc<OnceLock<Instant>>,
    budget: Option<Duration>,
}

impl Stopwatch {
    pub(crate) fn new(budget: Option<Duration>) -> Self {
        Self { started: Arc::default(), budget }
    }

    pub(crate) fn received(&self) {
        self.started.get_or_init(Instant::now);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.budget.is_some_and(|budget| self.elapsed() >= budget)
    }
}

/// Runs one worker per partition, each with its queue and a connection of its own, until the topic
/// is read or the budget is over.
pub(crate) async fn per_partition<Work, Running>(
    env: &Env,
    case: &str,
    budget: Option<Duration>,
    work: Work,
) -> Result<Finished>
where
    Work: Fn(Reader, AsyncPgConnection) -> Running,
    Running: Future<Output = Result<Reader>> + Send + 'static,
{
    let mut connections = Vec::new();
    for _ in 0..PARTITIONS {
        connections.push(database::connect(env).await?);
    }
    let consumer = Arc::new(consumer(env, case)?);
    let stopwatch = Stopwatch::new(budget);
    let mut workers = Vec::new();
    for (partition, connection) in (0..).zip(connections) {
        let reader = Reader::split(&consumer, env, partition, stopwatch.clone())?;
        workers.push(tokio::spawn(work(reader, connection)));
    }
    consumer.subscribe(&[&env.topic])?;
    let callbacks = Callbacks::serve(&consumer);

    let mut readers = Vec::new();
    for worker in workers {
        readers.push(worker.await??);
    }
    let elapsed = stopwatch.elapsed();
    let reached = std::array::from_fn(|partition| readers[partition].next);
    commit(&consumer, &env.topic, &reached)?;
    callbacks.stop().await?;
    Ok(Finished { consumed: reached, elapsed, latency: None })
}

/// One last commit, so that a group's offsets say what it did.
pub(crate) fn commit(consumer: &BaseConsumer, topic: &str, reached: &Prefix) -> Result<()> {
    let mut offsets = TopicPartitionList::new();
    for (partition, next) in (0..).zip(reached) {
        offsets.add_partition_offset(topic, partition, Offset::Offset(i64::from(*next)))?;
    }
    Ok(consumer.commit(&offsets, CommitMode::Sync)?)
}

/// One partition's records.
pub(crate) struct Reader {
    consumer: Arc<BaseConsumer>,
    queue: PartitionQueue<DefaultConsumerContext>,
    filled: Arc<Notify>,
    topic: String,
    partition: i32,
    /// How many records were read, which is the next one's offset.
    next: u32,
    end: u32,
    stopwatch: Stopwatch,
}

impl Reader {
    fn split(consumer: &Arc<BaseConsumer>, env: &Env, partition: i32, stopwatch: Stopwatch) -> Result<Self> {
        let mut queue =
            consumer.split_partition_queue(&env.topic, partition).ok_or("no queue for the partition")?;
        let filled = Arc::new(Notify::new());
        let notify = Arc::clone(&filled);
        queue.set_nonempty_callback(move || notify.notify_one());
        Ok(Self {
            consumer: Arc::clone(consumer),
            queue,
            filled,
            topic: env.topic.clone(),
            partition,
            next: 0,
            end: env.workload.whole()[usize::try_from(partition)?],
            stopwatch,
        })
    }

    /// What is there, at least one and at most `max`; nothing when this partition is through.
    pub(crate) async fn read(&mut self, max: u32) -> Result<Vec<Transfer>> {
        let mut records = Vec::new();
        if self.stopwatch.is_over() {
            return Ok(records);
        }
        let until = self.next.saturating_add(max).min(self.end);
        while self.next < until {
            if let Some(record) = self.queue.poll(Duration::ZERO) {
                let record = record?;
                if record.offset() != i64::from(self.next) {
                    return Err(format!("got offset {}, not {}", record.offset(), self.next).into());
                }
                self.stopwatch.received();
                records.push(Transfer::parse(record.payload())?);
                self.next += 1;
            } else if records.is_empty() {
                timeout(PATIENCE, self.filled.notified())
                    .await
                    .map_err(|_| format!("partition {} came to a stop", self.partition))?;
            } else {
                break;
            }
        }
        Ok(records)
    }

    /// Everything read so far has taken effect.
    pub(crate) fn done(&self) -> Result<()> {
        let last = i64::from(self.next) - 1;
        Ok(self.consumer.store_offset(&self.topic, self.partition, last)?)
    }
}

/// The thread that serves the group's callbacks, which arrive on the main queue.
struct Callbacks {
    stop: Arc<AtomicBool>,
    thread: tokio::task::JoinHandle<Result<()>>,
}

impl Callbacks {
    fn serve(consumer: &Arc<BaseConsumer>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let consumer = Arc::clone(consumer);
        let stopped = Arc::clone(&stop);
        let thread = tokio::task::spawn_blocking(move || {
            while !stopped.load(Ordering::Relaxed) {
                match consumer.poll(Duration::from_millis(100)) {
                    None => {}
                    Some(Ok(record)) => {
                        return Err(format!(
                            "a record of partition {} came to the main queue",
                            record.partition()
                        )
                        .into());
                    }
                    Some(Err(error)) => eprintln!("consumer: {error}"),
                }
            }
            Ok(())
        });
        Self { stop, thread }
    }

    async fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.await?
    }
}
