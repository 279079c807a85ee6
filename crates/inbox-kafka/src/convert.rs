//! From Kafka's message to a record.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use inbox_core::{Headers, Offset, Partition, Place, Record, Timestamp, Topic};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers as _};

/// Copies a message out of librdkafka's buffers.
pub(crate) fn record(message: &BorrowedMessage<'_>, topic: &Topic) -> Record {
    Record {
        place: Place {
            topic: topic.clone(),
            partition: Partition(message.partition()),
            offset: Offset(message.offset()),
        },
        timestamp: message.timestamp().to_millis().map(Timestamp),
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers: headers(message),
    }
}

fn headers(message: &BorrowedMessage<'_>) -> Headers {
    let Some(headers) = message.headers() else { return Headers::default() };
    Headers::new((0..headers.count()).map(|index| {
        // The client library panics on a header whose name is not UTF-8.
        catch_unwind(AssertUnwindSafe(|| {
            let header = headers.get(index);
            (Box::from(header.key), header.value.map(Bytes::copy_from_slice))
        }))
        .unwrap_or_else(|_| ("\u{fffd}".into(), None))
    }))
}
