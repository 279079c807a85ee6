//! A service in a process of its own, that tests kill, stop and continue.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::service::Service;
use crate::wait;

/// The variable that tells the process what it is made of.
pub const SERVICE: &str = "INBOX_TEST_WORKER";

/// A process with a service. Killed when it is dropped.
pub struct Worker {
    child: Child,
    log: PathBuf,
    name: String,
}

impl Worker {
    /// Starts the process.
    #[must_use]
    pub fn start(service: &Service) -> Self {
        let program = program();
        let (log, path) = tempfile::Builder::new()
            .prefix(&format!("inbox-{}-", service.name))
            .suffix(".log")
            .tempfile()
            .and_then(|file| file.keep().map_err(Into::into))
            .expect("a file for its log");
        let child = Command::new(&program)
            .env(SERVICE, serde_json::to_string(service).expect("a service is JSON"))
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the same file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Self { child, log: path, name: service.name.clone() }
    }

    /// Kills it, as the kernel does when memory is short: nothing of it runs any more.
    pub fn kill(mut self) {
        self.child.kill().expect("it is killed");
        let status = self.child.wait().expect("it is gone");
        assert_eq!(status.signal(), Some(9), "it had ended before it was killed: {status}\n{}", self.log());
    }

    /// Stops it in the middle of whatever it does.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it gracefully, which must go well.
    pub async fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert!(status.success(), "{} did not end well: {status}\n{}", self.name, self.log());
    }

    /// Waits until it ends by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        wait::some("the end of the process", async || child.try_wait().expect("it can be waited for")).await
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_none()
    }

    /// What it has printed.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How many warnings and errors it has told: an outage must not fill a disk with them.
    #[must_use]
    pub fn complaints(&self) -> usize {
        let is_one = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
        self.log().lines().filter(is_one).count()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is there");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the log of {} ---", self.name);
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            lines[lines.len().saturating_sub(60)..].iter().for_each(|line| eprintln!("{line}"));
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Cargo builds it beside the tests of this package.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a program knows where it is");
    let built = test.ancestors().nth(2).expect("tests lie in a folder of the target folder");
    let program = built.join("inbox-test-worker");
    assert!(
        File::open(&program).is_ok(),
        "{} is not there: cargo test builds it together with the tests of inbox-tests",
        program.display()
    );
    program
}
