//! How fast the inbox consumes a real Kafka topic into a real Postgres, against what a competent
//! engineer would write by hand.
//!
//! One run makes one topic and lets each case consume it in a process and a consumer group of its
//! own, so that memory is measured per case and no case profits from the one before it. After each
//! case the balances in the database are compared with the sums of exactly those records that the
//! case says it consumed. A case whose sums differ fails the run.
//!
//! The map: `cases` is the table of cases, each in a file of its own; `workload` plans the records
//! and the sums, `topic` produces them, `consumer` reads them, `database` and `statements` are what
//! the cases written by hand share; `driver` runs the cases, `child` is one of them, `report` prints.

mod bare_transaction;
mod batch_handler;
mod by_batch;
mod by_partition;
mod by_partition_two;
mod by_record;
mod by_set;
mod cases;
mod child;
mod consumer;
mod database;
mod driver;
mod env;
mod handler;
mod handler_two;
mod library;
mod one_at_a_time;
mod process;
mod report;
mod restart;
mod statements;
mod topic;
mod workload;

use std::process::ExitCode;

/// What ends a case or the run: printed, never matched on.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every case ran and kept its sums.
fn run() -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match env::Command::from_args(std::env::args().skip(1))? {
        env::Command::Help => {
            println!("{}", env::help());
            Ok(true)
        }
        env::Command::Run(run) => runtime.block_on(driver::run(run)),
        env::Command::Child(env, case) => runtime.block_on(child::run(env, case)),
    }
}
