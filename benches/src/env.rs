//! What a run was asked for: arguments first, then the environment, then defaults.

use std::time::Duration;

use crate::cases::{self, CASES, Case};
use crate::workload::Workload;
use crate::{Error, Result};

const BROKERS: &str = "INBOX_TEST_BROKERS";
const DATABASE_URL: &str = "INBOX_TEST_DATABASE_URL";

/// What every case gets to see.
#[derive(Clone, Debug)]
pub(crate) struct Env {
    pub(crate) brokers: String,
    pub(crate) database_url: String,
    pub(crate) workload: Workload,
    /// How long a slow case consumes, from its first record on; what it reached by then is measured.
    pub(crate) budget: Duration,
    pub(crate) topic: String,
}

/// A run over several cases.
pub(crate) struct Run {
    pub(crate) env: Env,
    pub(crate) cases: Vec<&'static Case>,
    pub(crate) json: bool,
}

pub(crate) enum Command {
    Help,
    Run(Run),
    /// One case in a process of its own: what the driver starts, not what people type.
    Child(Env, &'static Case),
}

impl Command {
    pub(crate) fn from_args(args: impl Iterator<Item = String>) -> Result<Self> {
        let mut env = Env {
            brokers: std::env::var(BROKERS).unwrap_or_default(),
            database_url: std::env::var(DATABASE_URL).unwrap_or_default(),
            workload: Workload { seed: 1, records: 300_000 },
            budget: Duration::from_secs(15),
            topic: String::new(),
        };
        let mut chosen: Vec<&'static Case> = CASES.iter().collect();
        let mut json = false;
        let mut child = None;

        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--help" | "-h" => return Ok(Self::Help),
                "--json" => json = true,
                "--brokers" => env.brokers = value()?,
                "--database-url" => env.database_url = value()?,
                "--records" => env.workload.records = number(&arg, &value()?)?,
                "--seed" => env.workload.seed = number(&arg, &value()?)?,
                "--seconds" => env.budget = Duration::from_secs(number(&arg, &value()?)?),
                "--cases" => chosen = cases::named(&value()?)?,
                "--topic" => env.topic = value()?,
                "--child" => child = Some(cases::one(&value()?)?),
                other => return Err(format!("no such argument: {other}\n\n{}", help()).into()),
            }
        }

        for (what, argument, variable) in
            [(&env.brokers, "--brokers", BROKERS), (&env.database_url, "--database-url", DATABASE_URL)]
        {
            if what.is_empty() {
                return Err(format!("give {argument}, or set {variable}").into());
            }
        }
        if env.workload.records == 0 {
            return Err("--records must be at least 1".into());
        }
        // What is written by hand speaks without TLS, so the library does too.
        if !env.database_url.contains("sslmode=") {
            env.database_url.push(if env.database_url.contains('?') { '&' } else { '?' });
            env.database_url.push_str("sslmode=disable");
        }
        Ok(match child {
            Some(case) => Self::Child(env, case),
            None => Self::Run(Run { env, cases: chosen, json }),
        })
    }
}

impl Env {
    /// The process that runs one case. The database's address may hold a password, so it travels in
    /// the environment, where other users of the machine cannot read it.
    pub(crate) fn child(&self, case: &Case) -> Result<std::process::Command> {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command
            .env(BROKERS, &self.brokers)
            .env(DATABASE_URL, &self.database_url)
            .args(["--child", case.name, "--topic", &self.topic])
            .args(["--records", &self.workload.records.to_string()])
            .args(["--seed", &self.workload.seed.to_string()])
            .args(["--seconds", &self.budget.as_secs().to_string()]);
        Ok(command)
    }
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::from(format!("{name} wants a number, not {text:?}")))
}

pub(crate) fn help() -> String {
    format!(
        "bench [--cases a,b,c] [--records N] [--seconds N] [--seed N] [--json]\n      \
         [--brokers HOST:PORT] [--database-url URL]\n\n\
         --records       records on the topic (300000)\n\
         --seconds       how long a slow case consumes (15); the rate is that of what it reached\n\
         --seed          of the planned records (1)\n\
         --json          one line per case instead of a table\n\
         --brokers       or {BROKERS}\n\
         --database-url  or {DATABASE_URL}; tables named bench_* are made anew\n\n\
         cases: {}",
        cases::names()
    )
}
