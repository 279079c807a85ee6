//! The description of a subscription, and what is checked about it when the inbox starts.

use std::sync::Arc;
use std::time::Duration;

use crate::dead_letter::OnDead;
use crate::identity::{SubscriptionName, Topic};
use crate::record::Record;
use crate::retry::RetryPolicy;
use crate::store::{First, Registration};

use super::codec::Payload;
use super::rules::{IdRule, IdSource, KeyRule, KeySource};
use super::start::Start;
use super::topics::Topics;

type Filter = Arc<dyn Fn(&Record) -> bool + Send + Sync>;

/// What a subscription consumes and how: what `#[derive(Subscription)]` fills in.
pub struct Definition<P> {
    pub(crate) name: SubscriptionName,
    pub(crate) topics: Topics,
    pub(crate) codec: Box<dyn Payload<P>>,
    pub(crate) id: Option<IdSource<P>>,
    pub(crate) key: Option<KeySource<P>>,
    pub(crate) filter: Option<Filter>,
    pub(crate) max_batch: Option<usize>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) start: Option<Start>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) on_dead: OnDead,
}

/// What is wrong with a subscription's definition. Nothing has been consumed when it is returned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("subscription {name:?}: {problem}")]
pub struct DefinitionError {
    /// The subscription's name.
    pub name: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl<P: 'static> Definition<P> {
    /// A subscription under this durable name, whose values `codec` decodes.
    ///
    /// It still needs a [topic](Self::topic), an [id rule](Self::id) and a [key rule](Self::key).
    pub fn new(name: impl Into<Arc<str>>, codec: impl Payload<P>) -> Self {
        Self {
            name: SubscriptionName::new(name),
            topics: Topics::default(),
            codec: Box::new(codec),
            id: None,
            key: None,
            filter: None,
            max_batch: None,
            time_limit: None,
            start: None,
            retry: None,
            on_dead: OnDead::default(),
        }
    }

    /// Consumes this topic too.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<Arc<str>>) -> Self {
        self.topics.add(Topic::new(topic));
        self
    }

    /// Consumes every topic too whose whole name matches this [regular expression](https://docs.rs/regex),
    /// also those that are made later: they are found within `topic.metadata.refresh.interval.ms` (10 s
    /// unless it is set), and begin at their first record. Kafka's own, with two underscores in front,
    /// never match.
    #[must_use]
    pub fn topic_pattern(mut self, pattern: impl AsRef<str>) -> Self {
        self.topics.add_pattern(pattern.as_ref());
        self
    }

    /// Where message ids come from.
    #[must_use]
    pub fn id(mut self, rule: IdRule<P>) -> Self {
        self.id = Some(rule.0);
        self
    }

    /// Where business keys come from.
    #[must_use]
    pub fn key(mut self, rule: KeyRule<P>) -> Self {
        self.key = Some(rule.0);
        self
    }

    /// Ignores records for which this is false, before they are decoded and without a row. A panic
    /// in it makes the record a dead letter of class `undecodable`.
    #[must_use]
    pub fn filter(mut self, wanted: impl Fn(&Record) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(wanted));
        self
    }

    /// At most this many messages in one transaction, instead of the inbox's setting. With 1 each
    /// message has a transaction of its own. Zero is refused when the inbox starts.
    #[must_use]
    pub fn max_batch(mut self, messages: usize) -> Self {
        self.max_batch = Some(messages);
        self
    }

    /// How long one call of the handler may take, instead of the inbox's setting. It is then cut
    /// off, fails alone and is tried again.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// How a failing message is tried again, instead of the inbox's [setting](crate::Settings::retry).
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Whether a dead letter frees its key. The default is [`OnDead::Release`].
    #[must_use]
    pub fn on_dead(mut self, on_dead: OnDead) -> Self {
        self.on_dead = on_dead;
        self
    }

    /// Where it begins if the database does not know it yet. If nothing is said it begins at the first
    /// record, unless its consumer group has committed offsets while the database knows nothing of the
    /// group: then the inbox does not start, because everything would be handled a second time.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }

    pub(crate) fn check(&self) -> Result<(), DefinitionError> {
        let problem = if let Some(problem) = self.name.problem() {
            problem
        } else if let Some(problem) = self.topics.problem() {
            problem
        } else if self.id.is_none() {
            "it does not say where message ids come from: add `id = header(\"…\")`, `cloud_event`, `payload(field)` or `offset`".into()
        } else if self.key.is_none() {
            "it does not say where business keys come from: add `key = payload(field)`, `record` or `partition`".into()
        } else if self.max_batch == Some(0) {
            "its max_batch is zero: no message could be handled; 1 gives each message a transaction of its own".into()
        } else if self.time_limit.is_some_and(|limit| limit.is_zero()) {
            "its time limit is zero: no handler could end within it".into()
        } else if let Some(problem) = self.retry.as_ref().and_then(RetryPolicy::problem) {
            problem
        } else if self.codec.takes_tombstones() && self.tombstone_has_no_key() {
            "its payload is an Option and its key a payload field, which a tombstone has not: say where a tombstone's key comes from".into()
        } else {
            return Ok(());
        };
        Err(DefinitionError { name: self.name.to_string(), problem })
    }

    /// What is recorded of it. Only called after `check`.
    pub(crate) fn registration(&self, first: First) -> Registration {
        Registration {
            first,
            name: self.name.clone(),
            id_rule: self.id.as_ref().map(ToString::to_string).unwrap_or_default(),
            key_rule: self.key.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }

    fn tombstone_has_no_key(&self) -> bool {
        matches!(self.key, Some(KeySource::Payload { tombstone: None, .. }))
            || matches!(self.id, Some(IdSource::Payload { tombstone: None, .. }))
    }
}
