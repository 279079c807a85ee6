//! Flush: the watermark to the database, then the offset, with the flush number, to Kafka (P2, P10).

use std::sync::Arc;
use std::time::Instant;

use inbox_core::inbox::FlushRequest;
use inbox_core::store::Flushed;
use inbox_core::{Database, Offset, StoreError};
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};

use super::Poll;
use super::held::{Held, Running};
use super::wake::Wake;

impl<Db: Database> Poll<'_, Db> {
    /// Each interval, and when half of some partition's budget waits for it. One flush at a time.
    pub(super) fn flush_when_due(&mut self) {
        if self.flushing.is_some() || !self.engine.is_up() {
            return;
        }
        let now = Instant::now();
        let records = self.budget().records;
        let due = now >= self.next_flush
            || self
                .partitions
                .values()
                .any(|held| matches!(held, Held::Running(r) if r.wants_flush(records)));
        if due {
            self.next_flush = now + self.engine.settings().flush_interval;
            self.flush();
        }
    }

    /// Sends every watermark that moved to the database.
    pub(super) fn flush(&mut self) {
        if self.flushing.is_some() {
            return;
        }
        self.look_at_positions();
        self.commit();
        let requests: Vec<FlushRequest> = self.running().filter_map(Running::flush).collect();
        if requests.is_empty() {
            return;
        }
        let flush = self.number();
        self.flushing = Some((flush, requests.clone()));
        let (engine, wakes) = (Arc::clone(&self.engine), self.wakes.clone());
        self.session.runtime.spawn(async move {
            let result = engine.flush(&requests).await;
            wakes.send(Wake::Flushed { flush, result });
        });
    }

    /// Behind the last record there may be what is never delivered.
    pub(super) fn look_at_positions(&mut self) {
        let positions = match self.consumer.position() {
            Ok(positions) => positions,
            Err(error) => {
                tracing::debug!(%error, "the client does not tell its positions");
                return;
            }
        };
        for running in self.running() {
            let (topic, partition) = (running.owner.topic().as_str(), running.owner.partition().0);
            match positions.find_partition(topic, partition).map(|element| element.offset()) {
                Some(KafkaOffset::Offset(position)) => running.reached(Some(Offset(position))),
                Some(KafkaOffset::Invalid) => running.reached(None),
                _ => {}
            }
        }
    }

    fn running(&mut self) -> impl Iterator<Item = &mut Running> {
        self.partitions.values_mut().filter_map(|held| match held {
            Held::Running(running) => Some(&mut **running),
            _ => None,
        })
    }

    pub(super) fn flush_ended(&mut self, flush: u64, result: Result<Vec<Flushed>, StoreError>) {
        let Some((_, requests)) = self.flushing.take_if(|(sent, _)| *sent == flush) else { return };
        let flushed = match result {
            Ok(flushed) => flushed,
            Err(error) => {
                // Its answer may be lost: then the next flush finds another number, and the partition
                // begins anew.
                tracing::debug!(%error, "a flush failed");
                self.running().for_each(Running::flush_ended);
                return;
            }
        };
        self.running().for_each(Running::flush_ended);
        for (request, flushed) in requests.iter().zip(flushed) {
            match flushed {
                Flushed::Lost { .. } => self.lost(&request.owner),
                Flushed::Written { number, .. } => self.flushed(request, number),
            }
        }
        self.commit();
    }

    fn flushed(&mut self, request: &FlushRequest, number: i64) {
        if let Some(running) = self.running().find(|running| Arc::ptr_eq(&running.owner, &request.owner)) {
            running.flushed(number, &request.watermarks);
        }
    }

    /// Gives Kafka what the database has: after a flush, and once after a claim, since the owner before
    /// may have ended in between and an idle partition would show its lag for ever.
    ///
    /// Of a commit that fails nobody hears: librdkafka tells the result only of those it begins by
    /// itself. But it keeps what was stored and not committed, and commits it when it is asked again,
    /// which each flush interval does.
    fn commit(&mut self) {
        let consumer = Arc::clone(&self.consumer);
        for running in self.running() {
            let Some((offset, number)) = running.to_store() else { continue };
            // One by one: for several it does not say which of them it did not take.
            let mut list = TopicPartitionList::new();
            let mut element = list.add_partition(running.owner.topic().as_str(), running.owner.partition().0);
            element.set_metadata(number.to_string());
            let set = element.set_offset(KafkaOffset::Offset(offset.0));
            match set.and_then(|()| consumer.store_offsets(&list)) {
                Ok(()) => running.stored(offset),
                Err(error) => tracing::debug!(%error, "the client does not take an offset yet"),
            }
        }
        match consumer.commit_consumer_state(CommitMode::Async) {
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
            Err(error) => tracing::debug!(%error, "offsets could not be given to Kafka"),
        }
    }
}
