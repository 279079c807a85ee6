//! One case in its own process: runs it, checks its sums, writes one line for the driver.

use std::sync::Arc;

use crate::cases::Case;
use crate::env::Env;
use crate::report::Measured;
use crate::{Result, database, process};

pub(crate) async fn run(env: Env, case: &'static Case) -> Result<bool> {
    let env = Arc::new(env);
    // On a worker of the runtime, where a service's code runs too.
    let finished = tokio::spawn((case.run)(Arc::clone(&env))).await??;
    let cpu = process::cpu()?;
    // Before the oracle, whose memory is not the case's.
    let peak_rss_mb = process::peak_rss_mb()?;

    database::check(&env, &finished.consumed).await?;
    let measured = Measured::new(case.name, &finished, cpu, peak_rss_mb);
    println!("{}", serde_json::to_string(&measured)?);
    Ok(true)
}
