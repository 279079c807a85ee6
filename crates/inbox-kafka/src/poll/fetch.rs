//! Records from the partitions' own queues, within the budget (P5).

use std::sync::Arc;
use std::time::Duration;

use inbox_core::{Database, Offset};
use rdkafka::types::RDKafkaErrorCode;

use crate::error::Error;

use super::Poll;
use super::held::{Held, Running};

/// Records taken of one partition before the next one has its turn.
const TURN: usize = 128;

/// What the client says of records that it cannot give to anyone.
const UNREADABLE: &[RDKafkaErrorCode] = &[
    RDKafkaErrorCode::BadMessage,
    RDKafkaErrorCode::BadCompression,
    RDKafkaErrorCode::InvalidMessage,
    RDKafkaErrorCode::InvalidMessageSize,
    RDKafkaErrorCode::NotImplemented,
    RDKafkaErrorCode::AutoOffsetReset,
    RDKafkaErrorCode::OffsetOutOfRange,
];

impl<Db: Database> Poll<Db> {
    /// Takes what is there. A partition whose budget is used up is left unpolled; its queue fills and
    /// librdkafka stops fetching.
    pub(super) fn fetch(&mut self) -> Result<bool, Error> {
        let budget = self.budget();
        let (mut busy, mut backlog) = (false, false);
        let mut problems = Vec::new();
        let mut made = Vec::new();
        for held in self.partitions.values_mut() {
            let Held::Running(running) = held else { continue };
            if running.owner.is_stopped() {
                continue;
            }
            for taken in 1..=TURN {
                if !running.has_room(budget.records, budget.bytes) {
                    break;
                }
                let Some(polled) = running.queue.poll(Duration::ZERO) else { break };
                busy = true;
                backlog |= taken == TURN;
                match polled {
                    Err(error) => problems.push((Arc::clone(&running.owner), running.next(), error)),
                    Ok(message) => {
                        let record = self.copies.record(&message, running.owner.topic());
                        drop(message);
                        deliver(&self.engine, running, record, &mut made);
                    }
                }
            }
        }
        self.engine.set_backlog(backlog);
        for (owner, from, source) in problems {
            let (topic, partition) = (owner.topic().clone(), owner.partition());
            // Behind these the client goes on as if the records were not there (P2).
            if source.rdkafka_error_code().is_some_and(|code| UNREADABLE.contains(&code)) {
                return Err(Error::Unreadable { topic, partition, from, source });
            }
            tracing::warn!(%topic, %partition, error = %source, "a partition reports a problem");
        }
        Ok(busy)
    }

    pub(super) fn budget(&self) -> Budget {
        let running = self.partitions.values().filter(|held| matches!(held, Held::Running(_))).count().max(1);
        let settings = self.engine.settings();
        Budget {
            records: (settings.max_in_flight / running).max(1),
            bytes: (settings.max_in_flight_bytes / running).max(1),
        }
    }
}

/// What one partition may have in flight: the whole, shared among those that run.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

fn deliver<Db: Database>(
    engine: &inbox_core::inbox::Engine<Db>,
    running: &mut Running,
    record: inbox_core::Record,
    made: &mut Vec<usize>,
) {
    let (offset, time, size): (Offset, _, _) = (record.offset(), record.timestamp, record.size());
    if offset < running.next() {
        // Cannot be: librdkafka drops what an earlier assignment had fetched. Taking it would move
        // the watermark past what is not finished.
        tracing::error!(topic = %running.owner.topic(), %offset, expected = %running.next(), "a record came again and is ignored");
        return;
    }
    made.clear();
    engine.deliver(&running.owner, record, made);
    running.delivered(offset, time, size, made);
}
