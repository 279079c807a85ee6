//! A handler with its types erased, so that one inbox holds many.

use std::any::Any;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::dead_letter::OnDead;
use crate::handler::{BatchHandler, Handler};
use crate::identity::{BusinessKey, MessageId, SubscriptionName};
use crate::message::Message;
use crate::process::{Attempt, AttemptEnd};
use crate::record::Record;
use crate::retry::RetryPolicy;
use crate::store::{Database, First, Registration};
use crate::subscription::{
    Definition, DefinitionError, Read, ReadContext, Rejection, Start, Subscription, Topics,
};

/// A `Message<P>` of a payload type that only its runner knows.
pub(crate) struct AnyMessage(Box<dyn Named>);

/// What can be said of a message without knowing its payload's type.
trait Named: Any + Send + Sync {
    fn id(&self) -> &MessageId;
    fn key(&self) -> Option<&BusinessKey>;
    fn record(&self) -> &Record;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<P: Send + Sync + 'static> Named for Message<P> {
    fn id(&self) -> &MessageId {
        self.id()
    }

    fn key(&self) -> Option<&BusinessKey> {
        self.key()
    }

    fn record(&self) -> &Record {
        self.record()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl AnyMessage {
    pub(crate) fn id(&self) -> &MessageId {
        self.0.id()
    }

    pub(crate) fn key(&self) -> Option<&BusinessKey> {
        self.0.key()
    }

    pub(crate) fn record(&self) -> &Record {
        self.0.record()
    }
}

/// What a record is to a subscription, with the payload's type erased.
pub(crate) enum Unread {
    Ignored,
    Message(AnyMessage),
    Rejected(Box<Rejection>),
}

pub(crate) trait Runner<Db: Database>: Send + Sync {
    fn check(&self) -> Result<(), DefinitionError>;
    fn name(&self) -> &SubscriptionName;
    fn topics(&self) -> &Topics;
    fn start(&self) -> Option<Start>;
    fn registration(&self, first: First) -> Registration;
    fn max_batch(&self) -> Option<usize>;
    fn time_limit(&self) -> Option<Duration>;
    fn retry(&self) -> Option<&RetryPolicy>;
    fn on_dead(&self) -> OnDead;
    /// Whether its handler's calls may share the connection at the same time.
    fn pipelines(&self) -> bool;
    /// Whether a batch waits for the database about as often as one message does.
    fn works_in_one_go(&self) -> bool;
    fn read(&self, record: Record, context: &ReadContext<'_>) -> Unread;
    /// The message of a record that was kept with its id and key.
    fn reread(
        &self,
        record: Record,
        id: MessageId,
        key: Option<BusinessKey>,
    ) -> Result<AnyMessage, Box<Rejection>>;
    fn set_attempt(&self, message: &mut AnyMessage, attempt: u32);
    fn run<'a>(
        &'a self,
        conn: &'a mut Db::Conn,
        messages: &'a [&'a AnyMessage],
        attempt: &'a Attempt<'a>,
    ) -> BoxFuture<'a, AttemptEnd>;
}

/// The two ways of calling a handler, as types.
pub(super) struct Each;
pub(super) struct All;

pub(super) struct Handling<H: Subscription, Way> {
    handler: H,
    definition: Definition<H::Payload>,
    way: PhantomData<fn() -> Way>,
}

impl<H: Subscription, Way> Handling<H, Way> {
    pub(super) fn new(handler: H) -> Self {
        let definition = handler.definition();
        Self { handler, definition, way: PhantomData }
    }

    fn read_record(&self, record: Record, context: &ReadContext<'_>) -> Unread {
        match self.definition.read(record, context) {
            Read::Ignored => Unread::Ignored,
            Read::Rejected(rejection) => Unread::Rejected(rejection),
            Read::Message(message) => Unread::Message(AnyMessage(message)),
        }
    }

    fn typed<'a>(messages: &[&'a AnyMessage]) -> Vec<&'a Message<H::Payload>> {
        messages
            .iter()
            .map(|message| {
                message.0.as_any().downcast_ref().expect("a runner gets only the messages it has read")
            })
            .collect()
    }
}

macro_rules! runner {
    ($way:ty, $kind:ident, $pipelines:expr, $one_go:expr, $handle:ident) => {
        impl<Db: Database, H: $kind<Db>> Runner<Db> for Handling<H, $way> {
            fn check(&self) -> Result<(), DefinitionError> {
                self.definition.check()
            }

            fn name(&self) -> &SubscriptionName {
                &self.definition.name
            }

            fn topics(&self) -> &Topics {
                &self.definition.topics
            }

            fn start(&self) -> Option<Start> {
                self.definition.start
            }

            fn registration(&self, first: First) -> Registration {
                self.definition.registration(first)
            }

            fn max_batch(&self) -> Option<usize> {
                self.definition.max_batch
            }

            fn time_limit(&self) -> Option<Duration> {
                self.definition.time_limit
            }

            fn retry(&self) -> Option<&RetryPolicy> {
                self.definition.retry.as_ref()
            }

            fn on_dead(&self) -> OnDead {
                self.definition.on_dead
            }

            fn pipelines(&self) -> bool {
                $pipelines
            }

            fn works_in_one_go(&self) -> bool {
                $one_go
            }

            fn read(&self, record: Record, context: &ReadContext<'_>) -> Unread {
                self.read_record(record, context)
            }

            fn reread(
                &self,
                record: Record,
                id: MessageId,
                key: Option<BusinessKey>,
            ) -> Result<AnyMessage, Box<Rejection>> {
                Ok(AnyMessage(self.definition.reread(record, id, key)?))
            }

            fn set_attempt(&self, message: &mut AnyMessage, attempt: u32) {
                if let Some(message) = message.0.as_any_mut().downcast_mut::<Message<H::Payload>>() {
                    message.set_attempt(attempt);
                }
            }

            fn run<'a>(
                &'a self,
                conn: &'a mut Db::Conn,
                messages: &'a [&'a AnyMessage],
                attempt: &'a Attempt<'a>,
            ) -> BoxFuture<'a, AttemptEnd> {
                let typed = Self::typed(messages);
                Box::pin(async move { Db::$handle(conn, &self.handler, &typed, attempt).await })
            }
        }
    };
}

runner!(Each, Handler, Db::PIPELINES, Db::PIPELINES, handle_each);
runner!(All, BatchHandler, false, true, handle_all);
