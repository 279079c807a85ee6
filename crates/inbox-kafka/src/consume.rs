//! The future that users await.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use futures_util::future::BoxFuture;
use inbox_core::Database;
use inbox_core::inbox::{Engine, Events, Inbox};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::config::KafkaConfig;
use crate::error::Error;
use crate::poll::{Wake, Waker, Wakes};
use crate::preflight::{self, Connected};
use crate::session::Session;
use crate::stopped::{OnStop, Stopped};

/// Consumes the topics of every handler of the inbox. Await it; it ends when the
/// [shutdown](Consume::with_graceful_shutdown) future does, or with an error.
///
/// ```ignore
/// inbox_kafka::consume(KafkaConfig::new("localhost:9092", "payments"), inbox)
///     .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.ok(); })
///     .await?;
/// ```
///
/// Dropping the future stops taking records at once; transactions that run then end in the
/// background as they would have, and the member leaves its group.
///
/// # Errors
/// See [`Error`]: whatever is found wrong before the first record, and what makes going on
/// impossible. An outage of the database or of the brokers is not an error: partitions pause.
pub fn consume<Db: Database>(config: KafkaConfig, inbox: Inbox<Db>) -> Consume<Db> {
    Consume { config, inbox, shutdown: Box::pin(std::future::pending()), on_stop: None }
}

/// See [`consume`].
#[must_use = "nothing is consumed until it is awaited"]
pub struct Consume<Db: Database> {
    config: KafkaConfig,
    inbox: Inbox<Db>,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    on_stop: Option<OnStop>,
}

impl<Db: Database> Consume<Db> {
    /// Ends gracefully when this future does: nothing new is taken, transactions that run end
    /// within `Settings::drain_limit`, watermarks and offsets are written, the member leaves its
    /// group.
    pub fn with_graceful_shutdown(mut self, shutdown: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Box::pin(shutdown);
        self
    }

    /// Calls this when a partition stops because going on would lose or repeat effects, and each minute
    /// as long as it is stopped; the same is logged as an error. It must not block.
    pub fn on_stop(mut self, hook: impl Fn(&Stopped) + Send + Sync + 'static) -> Self {
        self.on_stop = Some(OnStop::new(hook));
        self
    }

    async fn run(self) -> Result<(), Error> {
        let Self { mut config, inbox, mut shutdown, on_stop } = self;
        inbox.check()?;
        config.check_drain_limit(inbox.current_settings().drain_limit)?;
        config.begin_tokens(preflight::LIMIT).await?;
        let wanted = Arc::new(inbox.topics());
        let group = config.group().to_owned();
        let starts: Vec<_> = inbox.starts().map(|(topics, start)| (topics.clone(), start)).collect();
        let (asked, configured) = (Arc::clone(&wanted), config.clone());
        let connected = spawn_blocking(move || preflight::connect(&configured, &asked, &starts)).await;
        let Connected { consumer, topics, firsts } =
            connected.map_err(|error| Error::Broken(error.to_string()))??;

        let (sender, received) = channel();
        let wakes = Wakes { sender, waker: Waker::default() };
        let events = {
            let wakes = wakes.clone();
            Events::new(move |event| wakes.send(Wake::Engine(event)))
        };
        let engine: Arc<Engine<Db>> = Arc::new(inbox.start(&group, firsts, events).await?);
        let (ended, mut end) = oneshot::channel();
        let stop = StopOnDrop(wakes.clone());
        let session = Session {
            config,
            engine: Arc::clone(&engine),
            runtime: Handle::current(),
            received,
            wakes,
            wanted,
            on_stop,
        };
        std::thread::Builder::new()
            .name("inbox-poll".into())
            .spawn(move || {
                let _ = ended.send(session.run(consumer, &topics));
            })
            .map_err(|error| Error::Broken(format!("no thread for polling: {error}")))?;
        let result = tokio::select! {
            result = &mut end => result,
            () = &mut shutdown => {
                drop(stop);
                end.await
            }
        };
        // Transactions had the drain limit to end; the rest has no owner any more.
        engine.stop(Duration::from_secs(1)).await;
        result.unwrap_or_else(|_| Err(Error::Broken("the poll thread died".into())))
    }
}

impl<Db: Database> IntoFuture for Consume<Db> {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Result<(), Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Also when the future is dropped, the poll thread is told to end.
struct StopOnDrop(Wakes);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.send(Wake::Stop);
    }
}
