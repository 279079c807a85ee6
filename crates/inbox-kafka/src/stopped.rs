//! Partitions that are not consumed until a person acts (P10).

use std::fmt;
use std::sync::Arc;

use inbox_core::store::Log;
use inbox_core::{Offset, Partition, Timestamp, Topic};

/// A partition that is not consumed: going on would lose or repeat effects. The others go on.
///
/// Its text says why, and the call that lets it be consumed again. It is looked at again every few
/// seconds: after the call, or when the reason is gone, it goes on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// The consumer group.
    pub group: String,
    /// The topic.
    pub topic: Topic,
    /// The partition.
    pub partition: Partition,
    /// The incarnation that another log would follow.
    pub incarnation: i32,
    /// Why.
    pub reason: StopReason,
}

/// Why a partition is not consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The log does not reach to a watermark: it was cut, or made anew, or retention overtook the group.
    OutsideLog {
        /// The first offset Kafka has.
        low: Offset,
        /// The offset after the last one Kafka has.
        high: Offset,
        /// Where a subscription must go on.
        watermark: Offset,
    },
    /// The topic was deleted and made anew, or another cluster answers.
    OtherLog {
        /// The log that was consumed before.
        recorded: Log,
        /// The log that Kafka has.
        found: Log,
    },
    /// Where the last finished record was there is another one: the log was cut and written anew, or it
    /// is another one.
    OtherRecord {
        /// The offset.
        offset: Offset,
        /// The timestamp of the record that was finished.
        finished: Timestamp,
        /// The timestamp of the record that is there.
        found: Option<Timestamp>,
    },
    /// A part of the log is damaged.
    Unreadable {
        /// The offset after the last record that was read.
        from: Offset,
        /// What the client says.
        problem: String,
    },
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutsideLog { low, high, watermark } if watermark < low => write!(
                f,
                "the records from the watermark {watermark} to {low} are gone before they were handled (retention \
                 overtook the group); Kafka has {low} to {high}"
            ),
            Self::OutsideLog { low, high, watermark } => write!(
                f,
                "the log ends at {high}, below the watermark {watermark}: it was cut, or made anew; Kafka has {low} to \
                 {high}"
            ),
            Self::OtherLog { recorded, found } => {
                let none = "unknown".to_owned();
                write!(
                    f,
                    "the topic is another one: it was consumed with the id {} on the cluster {}, and now it has the id {} \
                     on the cluster {}",
                    recorded.topic_id.as_ref().unwrap_or(&none),
                    recorded.cluster,
                    found.topic_id.as_ref().unwrap_or(&none),
                    found.cluster
                )
            }
            Self::OtherRecord { offset, finished, found } => write!(
                f,
                "at offset {offset} there is another record than the one that was handled (its timestamp was {}, \
                 not {}): the log was cut and written anew, or made anew",
                finished.0,
                found.map_or_else(|| "unknown".to_owned(), |time| time.0.to_string())
            ),
            Self::Unreadable { from, problem } => {
                write!(f, "the log cannot be read from offset {from} on: {problem}")
            }
        }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, topic, partition, incarnation, reason } = self;
        write!(
            f,
            "topic {topic} partition {partition} is not consumed: {reason}. To consume it all the same, call accept_log of \
             the store with AcceptLog {{ group: {group:?}, topic: {:?}, partition: Some({partition}), incarnation: \
             {incarnation}, from: LogStart::Earliest, or LogStart::At(offset) }}",
            topic.as_str()
        )
    }
}

/// Who is told of stops.
#[derive(Clone)]
pub(crate) struct OnStop(Arc<dyn Fn(&Stopped) + Send + Sync>);

impl OnStop {
    pub(crate) fn new(hook: impl Fn(&Stopped) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(crate) fn tell(&self, stopped: &Stopped) {
        (self.0)(stopped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_names_the_call_that_ends_it() {
        let stopped = Stopped {
            group: "payments".into(),
            topic: Topic::new("orders"),
            partition: Partition(3),
            incarnation: 2,
            reason: StopReason::OutsideLog { low: Offset(5), high: Offset(9), watermark: Offset(12) },
        };
        let text = stopped.to_string();
        for part in
            ["accept_log", "\"payments\"", "\"orders\"", "Some(3)", "incarnation: 2", "12", "ends at 9"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
