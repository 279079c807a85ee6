//! Records from the partitions' own queues, within the budget (P5).

use std::sync::Arc;
use std::time::Duration;

use inbox_core::inbox::Owner;
use inbox_core::store::LastRecord;
use inbox_core::{Database, Offset, Timestamp};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::error::Error;
use crate::stopped::StopReason;

use super::Poll;
use super::held::{Held, Running};

/// Records taken of one partition before the next one has its turn.
const TURN: usize = 128;

/// What becomes of a partition whose client reports this error; nothing for one that mends itself.
fn consequence(code: RDKafkaErrorCode) -> Option<Consequence> {
    use RDKafkaErrorCode::{
        AutoOffsetReset, BadCompression, BadMessage, InvalidMessage, InvalidMessageSize, LogTruncation,
        NotImplemented, OffsetOutOfRange,
    };
    match code {
        AutoOffsetReset | OffsetOutOfRange | LogTruncation => Some(Consequence::ClaimAnew),
        BadMessage | BadCompression | InvalidMessage | InvalidMessageSize => Some(Consequence::Stop),
        NotImplemented => Some(Consequence::End),
        _ => None,
    }
}

/// Behind each of these errors the client would go on as if records were not there (P2).
enum Consequence {
    /// The log is not where it was: the next claim says what is wrong with it.
    ClaimAnew,
    /// The log is damaged.
    Stop,
    /// This build cannot read the records.
    End,
}

impl<Db: Database> Poll<'_, Db> {
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
                let problem = match polled {
                    Err(error) => Problem::Client(error),
                    Ok(message) => {
                        let record = self.copies.record(&message, running.owner.topic());
                        drop(message);
                        match running.recognises(record.offset(), record.timestamp) {
                            Ok(()) => {
                                deliver(&self.engine, running, record, &mut made);
                                continue;
                            }
                            Err(last) => Problem::OtherRecord(last, record.timestamp),
                        }
                    }
                };
                problems.push((Arc::clone(&running.owner), running.next(), problem));
                break;
            }
        }
        self.engine.set_backlog(backlog);
        for (owner, from, problem) in problems {
            self.problem(&owner, from, problem)?;
        }
        Ok(busy)
    }

    fn problem(&mut self, owner: &Owner, from: Offset, problem: Problem) -> Result<(), Error> {
        let place = (owner.topic().clone(), owner.partition());
        // Whoever gets it next finds out for himself.
        if self.is_releasing(&place) {
            return Ok(());
        }
        let error = match problem {
            Problem::OtherRecord(last, found) => {
                let reason = StopReason::OtherRecord { offset: last.offset, finished: last.time, found };
                self.stop_partition(&place, owner.incarnation(), reason);
                return Ok(());
            }
            Problem::Client(error) => error,
        };
        let (topic, partition) = &place;
        match error.rdkafka_error_code().and_then(consequence) {
            None => tracing::warn!(%topic, %partition, %error, "a partition reports a problem"),
            Some(Consequence::ClaimAnew) => {
                tracing::warn!(%topic, %partition, %error, "the log is not where it was");
                self.rest(&place);
            }
            Some(Consequence::Stop) => {
                let reason = StopReason::Unreadable { from, problem: error.to_string() };
                self.stop_partition(&place, owner.incarnation(), reason);
            }
            Some(Consequence::End) => {
                let (topic, partition) = place;
                return Err(Error::UnknownCompression { topic, partition, from, source: error });
            }
        }
        Ok(())
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

/// Why a partition is looked at.
enum Problem {
    /// At the place of the last finished record there is one with another timestamp.
    OtherRecord(LastRecord, Option<Timestamp>),
    Client(KafkaError),
}

fn deliver<Db: Database>(
    engine: &inbox_core::inbox::Engine<Db>,
    running: &mut Running,
    record: inbox_core::Record,
    made: &mut Vec<usize>,
) {
    let (offset, time, size): (Offset, _, _) = (record.offset(), record.timestamp, record.size());
    if offset < running.owner.start() {
        // Read to recognise the log, and finished before.
        return;
    }
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
