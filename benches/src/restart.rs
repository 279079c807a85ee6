//! kill -9, and how long until the restarted process has its first new effect, on the classic
//! protocol: with a static member id, as a service in a stateful set has it, and without, where the
//! group first waits until the session of the dead member is over.
//!
//! Each case kills a worker process of its own three times on the way through the topic; `p50_us` is
//! the median and `p99_us` the longest of the three times.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel_async::AsyncPgConnection;
use inbox::kafka::{KafkaConfig, consume};
use inbox::{Inbox, PostgresStore};
use tokio::time::sleep;

use crate::cases::Finished;
use crate::consumer::group;
use crate::env::Env;
use crate::handler::AddToAccount;
use crate::library::{self, Progress};
use crate::report::Latency;
use crate::{Result, database};

/// How the killed process is a member of its group.
#[derive(Clone, Copy)]
pub(crate) enum Member {
    Static,
    Dynamic,
}

/// The shortest that brokers accept by default.
pub(crate) const SESSION: Duration = Duration::from_secs(6);
/// Set for the worker that is killed.
const WORKER: &str = "INBOX_BENCH_WORKER";
/// A worker that makes no progress for this long is stuck.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) async fn run(env: Arc<Env>, member: Member) -> Result<Finished> {
    if std::env::var_os(WORKER).is_some() {
        return work(env, member).await;
    }
    library::store(&env).await?;
    let expected = i64::try_from(env.workload.plan().filter(|planned| !planned.resend).count())?;
    let mut connection = database::connect(&env).await?;
    let started = Instant::now();
    let mut worker = Worker::start(&env, member)?;
    let mut taken = Vec::new();
    for percent in [20, 45, 70] {
        let until = expected * percent / 100;
        wait(&mut connection, until).await?;
        worker.0.kill()?;
        let killed = Instant::now();
        worker.0.wait()?;
        worker = Worker::start(&env, member)?;
        // What the server had received before the kill still lands; it is not the new process's.
        sleep(Duration::from_millis(100)).await;
        let before = library::effects(&mut connection).await?;
        wait(&mut connection, before + 1).await?;
        taken.push(killed.elapsed());
        eprintln!("  at {percent} %: first new effect after {:.2?}", killed.elapsed());
    }
    wait(&mut connection, expected).await?;
    let elapsed = started.elapsed();
    Ok(Finished { consumed: env.workload.whole(), elapsed, latency: Some(Latency::of(taken)) })
}

/// Waits until there are this many effects.
async fn wait(connection: &mut AsyncPgConnection, effects: i64) -> Result<()> {
    let since = Instant::now();
    while library::effects(connection).await? < effects {
        if since.elapsed() > PATIENCE {
            return Err("the worker makes no progress".into());
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Consumes until it is killed.
async fn work(env: Arc<Env>, member: Member) -> Result<Finished> {
    let handler = AddToAccount { env: Arc::clone(&env), progress: Progress::new() };
    let inbox = Inbox::new(PostgresStore::connect(&env.database_url).await?).handle(handler);
    let config = KafkaConfig::new(&env.brokers, group(&env, member.case()));
    let config = match member {
        Member::Static => config.static_member_id("bench-0"),
        Member::Dynamic => config.session_timeout(SESSION),
    };
    consume(config, inbox).await?;
    Err("the worker ended by itself".into())
}

impl Member {
    fn case(self) -> &'static str {
        match self {
            Self::Static => "restart",
            Self::Dynamic => "restart_dynamic",
        }
    }
}

/// The process that is killed; also when the case fails.
struct Worker(Child);

impl Worker {
    fn start(env: &Env, member: Member) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(["--child", member.case(), "--topic", &env.topic, "--brokers", &env.brokers])
            .args(["--records", &env.workload.records.to_string(), "--seed", &env.workload.seed.to_string()])
            .env("INBOX_TEST_DATABASE_URL", &env.database_url)
            .env(WORKER, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
