//! The worker as its parent sees it: a process.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::Result;
use crate::args::WorkerArgs;
use crate::received::FirstOffsets;

/// How long a worker may take to end: longer than the inbox lets transactions run at shutdown.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running worker. Killed if it is dropped.
pub(crate) struct Worker {
    child: Child,
    pub(crate) pid: u32,
}

impl Worker {
    /// Starts this very program once more, as the worker.
    pub(crate) fn start(args: &WorkerArgs) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .args(["--number", &args.number.to_string()])
            .args(["--brokers", &args.brokers])
            .args(["--topic", &args.topic])
            .args(["--group", &args.group])
            .args(["--session-ms", &args.session_ms.to_string()])
            .env(WorkerArgs::DATABASE, args.database.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or("the worker ended at once")?;
        Ok(Self { child, pid })
    }

    /// An error if it has ended: nobody told it to.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the worker ended by itself: {status}").into()),
        }
    }

    /// SIGKILL: it gets no chance to finish anything.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }

    /// Asks it to end, and for its report.
    pub(crate) async fn stop(mut self) -> Result<FirstOffsets> {
        drop(self.child.stdin.take());
        let ended = timeout(PATIENCE, self.child.wait_with_output()).await;
        let output = ended.map_err(|_| format!("the worker does not end within {PATIENCE:?}"))??;
        if !output.status.success() {
            return Err(format!("the worker did not end well: {}", output.status).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
