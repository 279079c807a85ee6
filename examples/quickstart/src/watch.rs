//! Looking at the database until something has come true, with a bar that shows it.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep;

use crate::Result;
use crate::child::Worker;
use crate::database::Database;

/// How long nothing may happen before the run goes on to count what there is.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks, at least.
const PAUSE: Duration = Duration::from_millis(20);

/// What is waited for.
pub(crate) enum Goal<'a> {
    /// So many effects.
    Effects(usize),
    /// The group has parked so many messages.
    Parked { group: &'a str, messages: usize },
    /// The group has finished so many records, in one piece from the first on, and nothing is parked.
    Finished { group: &'a str, records: usize },
}

/// Tells on stderr what happens.
pub(crate) struct Watch {
    started: Instant,
    bar: ProgressBar,
}

impl Watch {
    pub(crate) fn new(started: Instant, effects: usize) -> Result<Self> {
        let style =
            ProgressStyle::with_template("         [{bar:50}] {pos}/{len} effects")?.progress_chars("=> ");
        // It draws only on a terminal.
        let bar = ProgressBar::new(u64::try_from(effects)?).with_style(style);
        Ok(Self { started, bar })
    }

    /// A line above the bar; without a terminal, the only sign of life.
    pub(crate) fn say(&self, line: &str) {
        let seconds = self.started.elapsed().as_secs_f32();
        self.bar.suspend(|| eprintln!("{seconds:>6.1} s {line}"));
    }

    /// Returns when the goal is reached, or nothing has happened for too long: what is missing will
    /// be counted.
    ///
    /// # Errors
    /// If the worker ends by itself, or the database does not answer.
    pub(crate) async fn until(
        &self,
        goal: Goal<'_>,
        worker: &mut Worker,
        database: &mut Database,
    ) -> Result<()> {
        let mut last = (0, Instant::now());
        loop {
            let looked = Instant::now();
            worker.check_alive()?;
            let effects = database.count_effects().await?;
            self.bar.set_position(u64::try_from(effects)?);
            let (seen, reached) = match goal {
                Goal::Effects(wanted) => (effects, effects >= wanted),
                Goal::Parked { group, messages } => {
                    let parked = database.count_open(group).await?;
                    (effects + parked, parked >= messages)
                }
                Goal::Finished { group, records } => {
                    let finished = database.count_finished(group).await?;
                    let parked = database.count_open(group).await?;
                    (effects + finished, finished >= records && parked == 0)
                }
            };
            if reached {
                return Ok(());
            }
            if seen != last.0 {
                last = (seen, Instant::now());
            } else if last.1.elapsed() > PATIENCE {
                self.say(&format!("nothing has happened for {PATIENCE:?}: counting what there is"));
                return Ok(());
            }
            // Counting a large table must not take the time of those who fill it.
            sleep(PAUSE.max(looked.elapsed() * 10)).await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
