//! The Kafka client: made from the configuration, and closed within a limit.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::Error;

/// How long a client may take to leave its group. Then the group finds out by itself, after the
/// session time-out.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn make(config: &KafkaConfig) -> Result<BaseConsumer<Context>, Error> {
    let made = config.to_client_config()?.create_with_context(Context::new(config));
    made.map_err(|error| Error::client(error, &config.secrets()))
}

/// Leaves the group and ends the client. Blocks, but not for ever: the client library waits without a
/// limit, for a coordinator that may be gone, so it waits on a thread that nobody waits for.
pub(crate) fn close(consumer: Arc<BaseConsumer<Context>>) {
    let until = Instant::now() + CLOSE_LIMIT;
    let (closed, when_closed) = channel();
    let closing = std::thread::Builder::new().name("inbox-close".into()).spawn(move || {
        // A question that is still on its way holds it too, and the last to let go is who waits.
        while Arc::strong_count(&consumer) > 1 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(consumer);
        let _ = closed.send(());
    });
    // Without a thread the consumer was dropped, and with it closed, right here.
    if closing.is_ok() && when_closed.recv_timeout(CLOSE_LIMIT).is_err() {
        tracing::warn!(
            "the Kafka client does not end within {CLOSE_LIMIT:?} and is left to itself: its group notices after the session \
             time-out"
        );
    }
}
