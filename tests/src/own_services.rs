//! A Postgres or a Kafka of one test's own, to be stopped without harm to others.

use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Services that nobody else uses. Stopped, and their data deleted, when this is dropped.
pub struct OwnServices {
    state: TempDir,
    given: &'static [&'static str],
    settings: Vec<(&'static str, &'static str)>,
    /// The database's address.
    pub database: String,
    /// The brokers' address.
    pub brokers: String,
}

/// What names the database of all tests.
const POSTGRES: &[&str] = &["INBOX_TEST_DATABASE_URL"];

impl OwnServices {
    /// A Postgres of its own; Kafka is that of all tests. Blocks.
    #[must_use]
    pub fn postgres() -> Self {
        Self::start(POSTGRES, &[])
    }

    /// A Postgres of its own as a process of this machine, whatever Docker offers: it can have a
    /// [replica](crate::replica::Replica). Blocks.
    #[must_use]
    pub fn local_postgres() -> Self {
        Self::start(POSTGRES, &[("INBOX_SERVICES_LOCAL", "1")])
    }

    /// The same on a disk of this size, such as `96m`. Needs root. Blocks.
    #[must_use]
    pub fn postgres_on_disk(size: &'static str) -> Self {
        Self::start(POSTGRES, &[("INBOX_SERVICES_LOCAL", "1"), ("INBOX_PG_DISK", size)])
    }

    /// A Kafka of its own; Postgres is that of all tests. Blocks.
    #[must_use]
    pub fn kafka() -> Self {
        Self::start(&["INBOX_TEST_BROKERS"], &[])
    }

    /// Both of its own. Blocks.
    #[must_use]
    pub fn both() -> Self {
        Self::start(&["INBOX_TEST_DATABASE_URL", "INBOX_TEST_BROKERS"], &[])
    }

    /// The script takes what the environment names, and starts the rest.
    fn start(given: &'static [&'static str], settings: &[(&'static str, &'static str)]) -> Self {
        let state = TempDir::new().expect("a folder for its state");
        let settings = settings.to_vec();
        let mut services = Self { state, given, settings, database: String::new(), brokers: String::new() };
        let exports = services.run("start");
        let exports = String::from_utf8(exports.stdout).expect("exports are text");
        let value = |name: &str| {
            let start = format!("export {name}=");
            let line = exports.lines().find_map(|line| line.strip_prefix(&start));
            // Quoted for a shell, by a backslash before each odd character.
            line.unwrap_or_else(|| panic!("{exports:?} does not name {name}")).replace('\\', "")
        };
        services.database = value("INBOX_TEST_DATABASE_URL");
        services.brokers = value("INBOX_TEST_BROKERS");
        services
    }

    /// A command of `tests/services`: `postgres-stop`, `postgres-start`, `kafka-kill`, `kafka-start`.
    /// Blocks until the service is gone, or ready.
    pub fn tell(&self, command: &str) {
        drop(self.run(command));
    }

    /// The same for a command that answers.
    #[must_use]
    pub fn ask(&self, command: &str) -> String {
        String::from_utf8(self.run(command).stdout).expect("answers are text").trim().to_owned()
    }

    /// The folder with the data of this Postgres, if it is a local one.
    #[must_use]
    pub fn postgres_folder(&self) -> PathBuf {
        let state = std::fs::read_to_string(self.state.path().join("state")).expect("the services run");
        let folder = state.lines().find_map(|line| line.strip_prefix("work_dir="));
        PathBuf::from(folder.expect("the state names it")).join("postgres")
    }

    fn run(&self, command: &str) -> Output {
        let output = self.command(command).output().expect("tests/services can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tests/services {command}: {}\n{said}", output.status);
        output
    }

    fn command(&self, command: &str) -> Command {
        // The tests of a copy of the tree use the script, and the folders, of the tree itself.
        let script = std::env::var_os("INBOX_TEST_SERVICES")
            .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/services")), PathBuf::from);
        let mut services = Command::new(script);
        services.arg(command).env("INBOX_TEST_STATE", self.state.path().join("state"));
        services.envs(self.settings.iter().copied());
        for name in self.given {
            services.env_remove(name);
        }
        services
    }
}

impl Drop for OwnServices {
    fn drop(&mut self) {
        if let Err(error) = self.command("stop").output() {
            eprintln!("the services of this test could not be stopped: {error}");
        }
    }
}
