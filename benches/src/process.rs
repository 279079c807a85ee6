//! What this process has used so far.

use std::time::Duration;

use crate::Result;

/// The most memory that was ever resident, in megabytes.
pub(crate) fn peak_rss_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .ok_or("no VmHWM in /proc/self/status")?
        .trim()
        .parse()?;
    Ok(kilobytes / 1024.0)
}

/// CPU time of all threads, user and system, as the kernel counts it: in hundredths of a second.
pub(crate) fn cpu() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The second field is the program's name in brackets and may hold spaces.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = || -> Result<u64> { Ok(times.next().ok_or("too few fields")?.parse()?) };
    Ok(Duration::from_millis((ticks()? + ticks()?) * 10))
}
