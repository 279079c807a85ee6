//! Records that no client library sends: Kafka's protocol by hand.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::kafka::FreshTopic;
use crate::wait::PATIENCE;

/// A record of any bytes.
#[derive(Clone, Debug, Default)]
pub struct RawRecord {
    /// The timestamp, of any sign.
    pub timestamp: i64,
    /// The record key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// The headers: names of any bytes too.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Sends a record to a partition and returns its offset. Blocks.
#[must_use]
pub fn produce(topic: &FreshTopic, partition: i32, record: &RawRecord) -> i64 {
    let batch = batch(record);
    let mut request = Vec::new();
    // Produce, version 3, of client "wire", outside of a transaction, acknowledged by all.
    put(&mut request, &[0, 0, 0, 3, 0, 0, 0, 1, 0, 4]);
    put(&mut request, b"wire");
    put(&mut request, &(-1_i16).to_be_bytes());
    put(&mut request, &(-1_i16).to_be_bytes());
    put(&mut request, &30_000_i32.to_be_bytes());
    put(&mut request, &1_i32.to_be_bytes());
    put(&mut request, &i16::try_from(topic.name().len()).expect("a short name").to_be_bytes());
    put(&mut request, topic.name().as_bytes());
    put(&mut request, &1_i32.to_be_bytes());
    put(&mut request, &partition.to_be_bytes());
    put(&mut request, &length(batch.len()).to_be_bytes());
    put(&mut request, &batch);

    let mut broker = TcpStream::connect(topic.broker()).expect("the broker answers");
    broker.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    broker.write_all(&length(request.len()).to_be_bytes()).expect("it takes the request");
    broker.write_all(&request).expect("it takes the request");
    let mut size = [0; 4];
    broker.read_exact(&mut size).expect("it answers");
    let mut answer = vec![0; u32::from_be_bytes(size) as usize];
    broker.read_exact(&mut answer).expect("it answers");
    // Correlation id, one topic with its name, one partition with its number, error and offset.
    let at = 4 + 4 + 2 + topic.name().len() + 4 + 4;
    let error = i16::from_be_bytes(answer[at..at + 2].try_into().expect("two bytes"));
    assert_eq!(error, 0, "the broker refuses the record");
    i64::from_be_bytes(answer[at + 2..at + 10].try_into().expect("eight bytes"))
}

/// A record batch, version 2, of one record.
fn batch(record: &RawRecord) -> Vec<u8> {
    let mut body = vec![0, 0, 0];
    bytes(&mut body, record.key.as_deref());
    bytes(&mut body, record.value.as_deref());
    varint(&mut body, i64::from(length(record.headers.len())));
    for (name, value) in &record.headers {
        bytes(&mut body, Some(name));
        bytes(&mut body, value.as_deref());
    }
    let mut checked = Vec::new();
    // No compression, one record.
    put(&mut checked, &[0, 0, 0, 0, 0, 0]);
    put(&mut checked, &record.timestamp.to_be_bytes());
    put(&mut checked, &record.timestamp.to_be_bytes());
    // No producer id, epoch or sequence.
    put(&mut checked, &[0xff; 8 + 2 + 4]);
    put(&mut checked, &1_i32.to_be_bytes());
    varint(&mut checked, i64::from(length(body.len())));
    put(&mut checked, &body);

    let mut batch = Vec::new();
    put(&mut batch, &0_i64.to_be_bytes());
    put(&mut batch, &length(4 + 1 + 4 + checked.len()).to_be_bytes());
    put(&mut batch, &(-1_i32).to_be_bytes());
    put(&mut batch, &[2]);
    put(&mut batch, &crc32c(&checked).to_be_bytes());
    put(&mut batch, &checked);
    batch
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(bytes);
}

fn length(of: usize) -> i32 {
    i32::try_from(of).expect("less than 2 GB")
}

/// A length, -1 for null, and the bytes.
fn bytes(to: &mut Vec<u8>, value: Option<&[u8]>) {
    varint(to, value.map_or(-1, |value| i64::from(length(value.len()))));
    put(to, value.unwrap_or_default());
}

fn varint(to: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    loop {
        let low = u8::try_from(rest & 0x7f).expect("seven bits");
        rest >>= 7;
        if rest == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    let of_byte = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    };
    !bytes.iter().fold(!0, of_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
