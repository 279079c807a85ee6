//! From Kafka's message to a record.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Bytes, BytesMut};
use inbox_core::{Headers, Offset, Partition, Place, Record, Timestamp, Topic};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Header, Headers as _};

/// Copies messages out of librdkafka's buffers.
///
/// Small parts of many records share an allocation, which is there until all of them are finished.
/// What that keeps beyond its time is bounded by the records in flight times what is small.
#[derive(Default)]
pub(crate) struct Copies {
    shared: BytesMut,
}

impl Copies {
    /// What is small: shorter than this many bytes.
    const SMALL: usize = 1024;
    const SHARED: usize = 16 * Self::SMALL;

    pub(crate) fn record(&mut self, message: &BorrowedMessage<'_>, topic: &Topic) -> Record {
        Record::new(
            Place {
                topic: topic.clone(),
                partition: Partition(message.partition()),
                offset: Offset(message.offset()),
            },
            message.timestamp().to_millis().map(Timestamp),
            message.key().map(|key| self.copy(key)),
            message.payload().map(|value| self.copy(value)),
            Headers::new(each(message.headers()).map(|header| match header {
                Some(header) => (header.key, header.value.map(|value| self.copy(value))),
                None => (UNREADABLE, None),
            })),
        )
    }

    fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() >= Self::SMALL {
            return Bytes::copy_from_slice(bytes);
        }
        if self.shared.capacity() < bytes.len() {
            self.shared = BytesMut::with_capacity(Self::SHARED);
        }
        self.shared.extend_from_slice(bytes);
        self.shared.split().freeze()
    }
}

/// The name of a header whose own name is not UTF-8.
const UNREADABLE: &str = "\u{fffd}";

fn each(headers: Option<&BorrowedHeaders>) -> impl Iterator<Item = Option<Header<'_, &[u8]>>> {
    let headers = headers.into_iter();
    headers.flat_map(|headers| {
        (0..headers.count()).map(|index| {
            // The client library panics on a header whose name is not UTF-8.
            catch_unwind(AssertUnwindSafe(|| headers.get(index))).ok()
        })
    })
}
