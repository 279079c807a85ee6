//! A run: fills a topic, lets each case read it in a process of its own, reports.

use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use diesel_async::AsyncPgConnection;

use crate::cases::Case;
use crate::env::{Env, Run};
use crate::report::{self, Measured};
use crate::{Result, consumer, database, topic};

/// Whether every case ran and kept its sums.
pub(crate) async fn run(run: Run) -> Result<bool> {
    let Run { mut env, cases, json } = run;
    let mut database = database::lock(&env).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    env.topic = format!("inbox-bench-{}", now.as_millis());
    eprintln!("producing {} records to {} …", env.workload.records, env.topic);
    topic::fill(&env).await?;

    let mut all = Vec::new();
    let mut failed = Vec::new();
    for case in &cases {
        eprintln!("{} …", case.name);
        match measure(&mut database, &env, case).await {
            Ok(measured) => {
                if json {
                    println!("{}", serde_json::to_string(&measured)?);
                }
                all.push(measured);
            }
            Err(error) => {
                eprintln!("{}: {error}", case.name);
                failed.push(case.name);
            }
        }
    }

    let groups: Vec<_> = cases.iter().map(|case| consumer::group(&env, case.name)).collect();
    topic::delete(&env, &groups).await?;
    database::drop_tables(&mut database).await?;
    if !json {
        let server = database::describe(&mut database).await?;
        println!("{}", report::table(&all, &server));
    }
    if !failed.is_empty() {
        eprintln!("failed: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}

async fn measure(database: &mut AsyncPgConnection, env: &Env, case: &Case) -> Result<Measured> {
    database::reset(database).await?;
    let mut command = env.child(case)?;
    let output =
        tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).stderr(Stdio::inherit()).output())
            .await??;
    if !output.status.success() {
        return Err(format!("its process ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
