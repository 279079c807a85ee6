//! One run: produce, start the worker, kill it, start it again, stop it, count.

use std::time::Instant;

use tracing::level_filters::LevelFilter;

use crate::Result;
use crate::args::{RunArgs, WorkerArgs};
use crate::audit::{Audit, Evidence};
use crate::broker::{self, Broker};
use crate::child::Worker;
use crate::database::{Address, Database};
use crate::produce::produce;
use crate::report;
use crate::watch::{Goal, Watch};
use crate::workload::{ACCOUNTS, CLOSED, Workload};

/// The worker is killed when this share of the payments has taken effect, in percent.
const KILLED_AT: usize = 40;

/// Whether every promise was kept.
pub(crate) async fn run(args: RunArgs) -> Result<bool> {
    let started = Instant::now();
    broker::check_limit(args.brokers.as_deref(), args.messages)?;
    // Deleted at the end, whichever end it is.
    let folder = tempfile::tempdir()?;
    let file = || Address::Sqlite(folder.path().join("quickstart.db").display().to_string());
    let address = args.database_url.unwrap_or_else(file);
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let workload = Workload::plan(seed, args.messages);
    let broker = Broker::start(args.brokers.as_deref(), &format!("{:08x}", fastrand::u32(..))).await?;

    let audited = tokio::select! {
        audited = act(started, &broker, &address, &workload) => audited,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    let closed = broker.close().await;
    let audit = audited?;
    closed?;
    report::print(&audit, started.elapsed(), args.json)?;
    Ok(audit.broken().is_empty())
}

async fn act(started: Instant, broker: &Broker, address: &Address, workload: &Workload) -> Result<Audit> {
    let payments = workload.payments.len();
    let watch = Watch::new(started, payments)?;
    watch.say(&format!("seed {}, {}, {}", workload.seed, broker.describe(), address.describe()));
    let mut database = Database::prepare(address).await?;
    tokio::task::block_in_place(|| produce(broker, workload))?;
    watch.say(&format!(
        "{payments} payments to {ACCOUNTS} accounts are produced, {} of them twice, and one record that nobody can \
         decode; {} accounts are closed",
        workload.resends(),
        ACCOUNTS / CLOSED
    ));

    let mut args = WorkerArgs {
        number: 1,
        brokers: broker.addresses.clone(),
        topic: broker.topic.clone(),
        group: broker.group.clone(),
        session_ms: u64::try_from(broker.session.as_millis())?,
        database: address.clone(),
        log: LevelFilter::OFF,
    };
    let mut worker = Worker::start(&args)?;
    watch.say(&format!("worker 1 is started as process {}", worker.pid));
    let some = (payments * KILLED_AT / 100).max(1);
    watch.until(Goal::Effects(some), &mut worker, &mut database).await?;
    worker.kill().await?;
    watch.say(&format!("worker 1 is killed (SIGKILL) after {} effects", database.count_effects().await?));

    args.number = 2;
    let mut worker = Worker::start(&args)?;
    watch.say(&format!(
        "worker 2 is started as process {}; Kafka waits {:?} for the dead one before it gives it the partitions",
        worker.pid, broker.session
    ));
    // Whatever else there is to do is done beside them.
    let closed = Goal::Parked { group: &broker.group, messages: workload.to_closed() };
    watch.until(closed, &mut worker, &mut database).await?;
    let others = payments - workload.to_closed();
    watch.until(Goal::Effects(others), &mut worker, &mut database).await?;
    let parked = database.count_open(&broker.group).await?;
    watch.say(&format!(
        "all others have taken effect, {parked} payments wait for the closed accounts, which are opened now"
    ));
    database.open_all_accounts().await?;
    let all = Goal::Finished { group: &broker.group, records: workload.count() };
    watch.until(all, &mut worker, &mut database).await?;
    let first_offsets = worker.stop().await?;
    watch.say("worker 2 has ended as it was told to");

    let evidence = Evidence {
        effects: database.effects().await?,
        balances: database.balances().await?,
        dead: database.count_dead(&broker.group).await?,
        finished: database.count_finished(&broker.group).await?,
        parked,
        first_offsets,
    };
    Ok(Audit::of(workload, &evidence))
}
