//! What was measured, as lines for programs and as a table for people.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cases::Finished;
use crate::restart;

/// The figures of one case; the line of `--json`.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Measured {
    pub(crate) case: String,
    /// Records per second.
    pub(crate) rate: f64,
    pub(crate) peak_rss_mb: f64,
    pub(crate) records: u32,
    pub(crate) seconds: f64,
    /// CPU time of the case's process per record, in microseconds: less shaken by other load than
    /// the rate is.
    pub(crate) cpu_us: f64,
    #[serde(flatten)]
    pub(crate) latency: Option<Latency>,
}

/// Microseconds from begin to commit, one at a time.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Latency {
    pub(crate) fn of(mut taken: Vec<Duration>) -> Self {
        taken.sort_unstable();
        let at = |percent: usize| {
            let place = (taken.len() * percent / 100).min(taken.len().saturating_sub(1));
            taken.get(place).map_or(0.0, |taken| taken.as_secs_f64() * 1e6)
        };
        Self { p50_us: at(50), p99_us: at(99) }
    }
}

impl Measured {
    pub(crate) fn new(case: &str, finished: &Finished, cpu: Duration, peak_rss_mb: f64) -> Self {
        let records: u32 = finished.consumed.iter().sum();
        let seconds = finished.elapsed.as_secs_f64();
        let many = f64::from(records.max(1));
        Self {
            case: case.to_owned(),
            rate: round(f64::from(records) / seconds.max(1e-9)),
            peak_rss_mb: round(peak_rss_mb),
            records,
            seconds: round(seconds),
            cpu_us: round(cpu.as_secs_f64() * 1e6 / many),
            latency: finished
                .latency
                .map(|latency| Latency { p50_us: round(latency.p50_us), p99_us: round(latency.p99_us) }),
        }
    }
}

fn round(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

/// A case's figure divided by a baseline's of the same run: the only comparison that survives a
/// change of machine.
struct Ratio {
    case: &'static str,
    baseline: &'static str,
    target: Target,
}

enum Target {
    /// The rate, no target: for orientation.
    None,
    RateAtLeast(f64),
    P50AtMost(f64),
}

/// What a case's longest time may be, whatever the machine.
const LONGEST: &[(&str, Duration)] = &[
    ("restart", Duration::from_secs(2)),
    ("restart_dynamic", restart::SESSION.saturating_add(Duration::from_secs(1))),
];

const RATIOS: &[Ratio] = &[
    Ratio { case: "by-partition", baseline: "by-record", target: Target::None },
    Ratio { case: "by-partition-two", baseline: "by-record", target: Target::None },
    Ratio { case: "by-batch", baseline: "by-partition", target: Target::None },
    Ratio { case: "by-set", baseline: "by-partition", target: Target::None },
    Ratio { case: "handler", baseline: "by-partition", target: Target::RateAtLeast(5.0) },
    Ratio { case: "handler", baseline: "by-batch", target: Target::RateAtLeast(0.7) },
    Ratio { case: "batch_handler", baseline: "by-set", target: Target::RateAtLeast(0.8) },
    Ratio { case: "handler_two", baseline: "by-partition-two", target: Target::RateAtLeast(2.0) },
    Ratio { case: "one_at_a_time", baseline: "bare-transaction", target: Target::P50AtMost(1.5) },
];

impl Ratio {
    /// In words, if both cases were measured.
    fn told(&self, all: &[Measured]) -> Option<String> {
        let find = |name| all.iter().find(|measured| measured.case == name);
        let (case, baseline) = (find(self.case)?, find(self.baseline)?);
        let rate = case.rate / baseline.rate;
        let name = self.baseline;
        Some(match self.target {
            Target::None => format!("{rate:.2} x {name}"),
            Target::RateAtLeast(target) => {
                let verdict = if rate >= target { "met" } else { "missed" };
                format!("{rate:.2} x {name} (at least {target}: {verdict})")
            }
            Target::P50AtMost(target) => {
                let p50 = case.latency?.p50_us / baseline.latency?.p50_us;
                let verdict = if p50 <= target { "met" } else { "missed" };
                format!("p50 {p50:.2} x {name} (at most {target}: {verdict})")
            }
        })
    }
}

pub(crate) fn table(all: &[Measured], server: &str) -> String {
    let mut table = String::new();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
    // Writing to a string cannot fail.
    let _ = writeln!(table, "{cpus} CPUs, {server}, librdkafka {librdkafka}\n");
    let _ = writeln!(
        table,
        "{:<18}{:>9}{:>9}{:>11}{:>9}{:>9}{:>9}{:>9}",
        "case", "records", "seconds", "records/s", "peak MB", "CPU µs", "p50 µs", "p99 µs"
    );
    for measured in all {
        let latency = |of: fn(&Latency) -> f64| {
            measured.latency.as_ref().map_or_else(String::new, |latency| format!("{:.0}", of(latency)))
        };
        let _ = writeln!(
            table,
            "{:<18}{:>9}{:>9.1}{:>11.0}{:>9.0}{:>9.1}{:>9}{:>9}",
            measured.case,
            measured.records,
            measured.seconds,
            measured.rate,
            measured.peak_rss_mb,
            measured.cpu_us,
            latency(|latency| latency.p50_us),
            latency(|latency| latency.p99_us),
        );
    }
    let ratios: Vec<_> = RATIOS.iter().filter_map(|ratio| Some((ratio.case, ratio.told(all)?))).collect();
    table.push('\n');
    for (case, told) in ratios {
        let _ = writeln!(table, "{case:<18}{told}");
    }
    for (case, limit) in LONGEST {
        let measured = all.iter().find(|measured| measured.case == *case);
        if let Some(longest) = measured.and_then(|measured| measured.latency) {
            let longest = Duration::from_secs_f64(longest.p99_us / 1e6);
            let verdict = if longest <= *limit { "met" } else { "missed" };
            let _ = writeln!(table, "{case:<18}longest {longest:.2?} (at most {limit:?}: {verdict})");
        }
    }
    table
}
