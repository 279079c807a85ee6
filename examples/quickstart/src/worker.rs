//! The service's process: an inbox over a store, driven from Kafka until it is told to stop.

use std::io;

use inbox::kafka::{KafkaConfig, consume};
use inbox::{Database, Inbox, PostgresStore, SqliteStore};
use tokio::sync::oneshot;

use crate::Result;
use crate::args::WorkerArgs;
use crate::database::Address;
use crate::payment::BookPayment;
use crate::received::Received;

pub(crate) async fn run(args: WorkerArgs) -> Result<()> {
    tracing_subscriber::fmt().with_max_level(args.log).with_writer(io::stderr).with_ansi(false).init();
    let received = Received::default();
    let handler = BookPayment { topic: args.topic.clone(), worker: args.number, received: received.clone() };
    match &args.database {
        Address::Sqlite(path) => {
            let store = SqliteStore::connect(path).await?;
            store.migrate().await?;
            serve(&args, Inbox::new(store).handle(handler)).await?;
        }
        Address::Postgres(url) => {
            let store = PostgresStore::connect(url).await?;
            store.migrate().await?;
            serve(&args, Inbox::new(store).handle(handler)).await?;
        }
    }
    // The report to the parent.
    println!("{}", serde_json::to_string(&received.first_offsets())?);
    Ok(())
}

async fn serve<Db: Database>(args: &WorkerArgs, inbox: Inbox<Db>) -> Result<()> {
    let kafka = KafkaConfig::new(&args.brokers, &args.group)
        .session_timeout(args.session())
        .property("heartbeat.interval.ms", "1000");
    consume(kafka, inbox).with_graceful_shutdown(parent_says_stop()).await?;
    Ok(())
}

/// Ends when the parent closes our stdin. A service would wait for a signal here.
async fn parent_says_stop() {
    let (closed, wait) = oneshot::channel::<()>();
    // A thread that nobody waits for: reading from stdin cannot be cut off.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(closed);
    });
    let _ = wait.await;
}
