//! The process that tests kill: a service as it is told by its environment.

use std::error::Error;

use inbox_kafka::consume;
use inbox_tests::job::Runs;
use inbox_tests::service::Service;
use inbox_tests::worker::SERVICE;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let service: Service = serde_json::from_str(&std::env::var(SERVICE)?)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let inbox = service.jobs(&Runs::default()).await;
    consume(service.kafka(), inbox)
        .with_graceful_shutdown(async move {
            terminate.recv().await;
        })
        .await?;
    Ok(())
}
