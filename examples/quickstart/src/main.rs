//! A service on the inbox is killed in the middle of its work and started again; then every effect
//! in its database is counted.
//!
//! Read `payment` first: it is the service's own code, all of it. `worker` is how it is started.
//! The rest makes the work and looks at what became of it, from another process:
//!
//! | module | what lives there |
//! |---|---|
//! | `payment` | what the service consumes, and what a payment does to the database |
//! | `worker` | the service's process |
//! | `received` | what the service is asked at its end: where its records began |
//! | `schema` | the service's tables |
//! | `args` | what a run can be asked for |
//! | `workload` | the payments, and what must come of them |
//! | `broker` | in-process or real: the topic of one run |
//! | `produce` | the payments on their way to the topic |
//! | `database` | `SQLite` or Postgres: the tables of one run, and what is counted in them |
//! | `child` | the worker as its parent sees it |
//! | `watch` | waiting for what the database says, with a progress bar |
//! | `run` | produce, start, kill, start again, stop |
//! | `audit` | what was produced against what the database says |
//! | `report` | the table, or a line of JSON |

mod args;
mod audit;
mod broker;
mod child;
mod database;
mod payment;
mod produce;
mod received;
mod report;
mod run;
mod schema;
mod watch;
mod worker;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Process};

/// What ends a run before its report: printed, never matched on.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let kept = match args.process {
        Some(Process::Worker(worker)) => worker::run(worker).await.map(|()| true),
        None => run::run(args.run).await,
    };
    match kept {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}
