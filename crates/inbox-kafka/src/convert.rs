//! From Kafka's message to a record.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use inbox_core::{Headers, Offset, Partition, Place, Record, Timestamp, Topic};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Header, Headers as _};

/// Copies a message out of librdkafka's buffers, all its bytes into one allocation.
pub(crate) fn record(message: &BorrowedMessage<'_>, topic: &Topic) -> Record {
    let headers = message.headers();
    let mut buffer = Vec::with_capacity(message.key_len() + message.payload_len() + headers.map_or(0, room));
    let mut keep = |bytes: Option<&[u8]>| {
        bytes.map(|bytes| {
            let start = buffer.len();
            buffer.extend_from_slice(bytes);
            start..buffer.len()
        })
    };
    let key = keep(message.key());
    let value = keep(message.payload());
    let kept: Vec<_> =
        each(headers).map(|header| header.map(|header| (header.key, keep(header.value)))).collect();
    let bytes = Bytes::from(buffer);
    let slice = |range: Option<std::ops::Range<usize>>| range.map(|range| bytes.slice(range));
    Record {
        place: Place {
            topic: topic.clone(),
            partition: Partition(message.partition()),
            offset: Offset(message.offset()),
        },
        timestamp: message.timestamp().to_millis().map(Timestamp),
        key: slice(key),
        value: slice(value),
        headers: Headers::new(kept.into_iter().map(|header| match header {
            Some((name, value)) => (name, slice(value)),
            None => (UNREADABLE, None),
        })),
    }
}

/// The name of a header whose own name is not UTF-8.
const UNREADABLE: &str = "\u{fffd}";

/// Room for the values of headers of the usual size, a UUID or a trace context; longer ones make more.
fn room(headers: &BorrowedHeaders) -> usize {
    headers.count() * 56
}

fn each(headers: Option<&BorrowedHeaders>) -> impl Iterator<Item = Option<Header<'_, &[u8]>>> {
    let headers = headers.into_iter();
    headers.flat_map(|headers| {
        (0..headers.count()).map(|index| {
            // The client library panics on a header whose name is not UTF-8.
            catch_unwind(AssertUnwindSafe(|| headers.get(index))).ok()
        })
    })
}
