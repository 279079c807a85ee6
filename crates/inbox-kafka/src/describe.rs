//! The ids of topics, by the admin call that the client library has no safe wrapper for.
//!
//! This is the crate's only module with `unsafe`: it speaks to librdkafka itself. Each call below is
//! used as its documentation in `rdkafka.h` says; what it makes is owned by a guard here, freed once,
//! in the reverse order.
#![allow(unsafe_code, reason = "rd_kafka_DescribeTopics has no wrapper, and P10 needs topic ids")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{self, NonNull};
use std::time::Duration;

use inbox_core::Topic;
use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};

/// The id of each of these topics; nothing for one that does not exist or may not be described, or
/// where the broker knows no ids. Blocks.
pub(crate) fn topic_ids<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topics: &[&Topic],
    limit: Duration,
) -> KafkaResult<BTreeMap<Topic, String>> {
    let Some(broker) = a_leader(consumer, topics, limit)? else { return Ok(BTreeMap::new()) };
    let client = consumer.client().native_ptr();
    // A name with a NUL byte cannot be a topic's.
    let names: Vec<CString> = topics.iter().filter_map(|topic| CString::new(topic.as_str()).ok()).collect();
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let millis = c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: `client` lives as long as `consumer`. The collection copies the names. The call copies
    // options and collection, and the queue outlives its answer, which is waited for here: an answer
    // that comes after the time-out is dropped with the queue.
    let event = unsafe {
        let queue = Guard::new(sys::rd_kafka_queue_new(client), sys::rd_kafka_queue_destroy)?;
        let collection = Guard::new(
            sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()),
            sys::rd_kafka_TopicCollection_destroy,
        )?;
        let options = Guard::new(
            sys::rd_kafka_AdminOptions_new(
                client,
                sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            ),
            sys::rd_kafka_AdminOptions_destroy,
        )?;
        sys::rd_kafka_AdminOptions_set_request_timeout(options.get(), millis, ptr::null_mut(), 0);
        sys::rd_kafka_AdminOptions_set_broker(options.get(), broker, ptr::null_mut(), 0);
        sys::rd_kafka_DescribeTopics(client, collection.get(), options.get(), queue.get());
        // A little more than the request may take, so that its own time-out is what is told.
        let event = sys::rd_kafka_queue_poll(queue.get(), millis.saturating_add(1000));
        Guard::new(event, sys::rd_kafka_event_destroy)?
    };
    // SAFETY: the event is there until its guard is dropped, and so is what it points to.
    unsafe { ids_of(&event) }
}

/// The broker that leads one of these topics. Every broker can describe them; without a wish librdkafka asks the
/// cluster's controller, and waits for one where there is none (as in its own mock cluster).
fn a_leader<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topics: &[&Topic],
    limit: Duration,
) -> KafkaResult<Option<i32>> {
    for topic in topics {
        let metadata = consumer.fetch_metadata(Some(topic.as_str()), limit)?;
        let mut leaders =
            metadata.topics().iter().flat_map(MetadataTopic::partitions).map(MetadataPartition::leader);
        if let Some(leader) = leaders.find(|leader| *leader >= 0) {
            return Ok(Some(leader));
        }
    }
    Ok(None)
}

unsafe fn ids_of(event: &Guard<sys::rd_kafka_event_t>) -> KafkaResult<BTreeMap<Topic, String>> {
    // SAFETY: by the caller; each pointer is looked at before it is followed.
    unsafe {
        let error = RDKafkaErrorCode::from(sys::rd_kafka_event_error(event.get()));
        match error {
            RDKafkaErrorCode::NoError => {}
            // A broker that knows no ids.
            RDKafkaErrorCode::UnsupportedFeature | RDKafkaErrorCode::UnsupportedVersion => {
                return Ok(BTreeMap::new());
            }
            error => return Err(KafkaError::AdminOp(error)),
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event.get());
        if result.is_null() {
            return Err(KafkaError::AdminOp(RDKafkaErrorCode::Fail));
        }
        let mut count = 0;
        let described = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        let mut ids = BTreeMap::new();
        for at in 0..count {
            let topic = *described.add(at);
            let error = sys::rd_kafka_TopicDescription_error(topic);
            if !error.is_null()
                && RDKafkaErrorCode::from(sys::rd_kafka_error_code(error)) != RDKafkaErrorCode::NoError
            {
                continue;
            }
            let name = text(sys::rd_kafka_TopicDescription_name(topic));
            let id = sys::rd_kafka_TopicDescription_topic_id(topic);
            if let Some(name) = name
                && !id.is_null()
                // All zero: no id.
                && (sys::rd_kafka_Uuid_most_significant_bits(id) != 0
                    || sys::rd_kafka_Uuid_least_significant_bits(id) != 0)
                && let Some(id) = text(sys::rd_kafka_Uuid_base64str(id))
            {
                ids.insert(Topic::new(name), id);
            }
        }
        Ok(ids)
    }
}

/// A copy of the text, if there is one.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: librdkafka's texts end with a NUL.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// Something of librdkafka's that is freed when this is dropped.
struct Guard<T> {
    pointer: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Guard<T> {
    /// Fails if there is nothing: it could not be made, or did not come in time.
    fn new(pointer: *mut T, free: unsafe extern "C" fn(*mut T)) -> KafkaResult<Self> {
        let pointer =
            NonNull::new(pointer).ok_or(KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut))?;
        Ok(Self { pointer, free })
    }

    fn get(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        // SAFETY: it was made by the function that belongs to `free`, and is freed only here.
        unsafe { (self.free)(self.pointer.as_ptr()) }
    }
}
