//! What a run can be asked for, and what it tells its worker.

#![allow(clippy::doc_markdown, reason = "the comments are the text of --help")]

use std::time::Duration;

use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;

use crate::database::Address;

/// Kills a Kafka consumer in the middle of its work, starts it again, and counts every effect in its
/// database: none lost, none doubled, all in order.
///
/// Without flags it needs no server: a Kafka broker runs within this process, the database is an
/// SQLite file.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) process: Option<Process>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Distinct payments; some of them are sent twice on top.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) messages: u32,
    /// Of the payments: the same seed makes the same ones. Random if not given.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// A real Kafka cluster instead of the broker in this process. A topic is made and deleted.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) brokers: Option<String>,
    /// A real Postgres instead of an SQLite file: postgres://user@host/database. Tables named
    /// quickstart_… are made anew and left there.
    #[arg(long, value_name = "URL", value_parser = Address::postgres)]
    pub(crate) database_url: Option<Address>,
    /// Ends with one line of JSON on stdout instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the program is, if it is not the one that people start.
#[derive(Subcommand)]
pub(crate) enum Process {
    /// The service that is going to be killed.
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[derive(Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    /// 1 for the first process, 2 for the one after the kill.
    #[arg(long)]
    pub(crate) number: i32,
    #[arg(long)]
    pub(crate) brokers: String,
    #[arg(long)]
    pub(crate) topic: String,
    #[arg(long)]
    pub(crate) group: String,
    #[arg(long)]
    pub(crate) session_ms: u64,
    /// May hold a password: it travels in the environment, where other users cannot read it.
    #[arg(long, env = WorkerArgs::DATABASE, hide_env_values = true)]
    pub(crate) database: Address,
    /// What the worker tells on stderr: off, error, warn, info, debug.
    #[arg(long, env = "QUICKSTART_LOG", default_value = "off")]
    pub(crate) log: LevelFilter,
}

impl WorkerArgs {
    pub(crate) const DATABASE: &str = "QUICKSTART_DATABASE";

    pub(crate) fn session(&self) -> Duration {
        Duration::from_millis(self.session_ms)
    }
}
