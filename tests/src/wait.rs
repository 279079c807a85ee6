//! Waiting for what must come: until it is there, and no longer than anyone would wait.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine: who waits that long has found a mistake.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// For conditions of tests: [`PATIENCE`], or the seconds in `INBOX_TEST_PATIENCE`. Proofs are content
/// with less, since each of them waits in vain.
fn limit() -> Duration {
    let seconds = std::env::var("INBOX_TEST_PATIENCE").ok();
    seconds.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.parse().expect("a number of seconds")))
}

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until there is something, and returns it.
pub async fn some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let (since, limit) = (Instant::now(), limit());
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(since.elapsed() < limit, "after {limit:?} there is still not: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks until it is true.
pub async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    some(what, async || look().await.then_some(())).await;
}

/// Looks until a value is what it must become; says what it was last if it does not.
pub async fn until_is<T: PartialEq + Debug>(what: &str, wanted: T, mut look: impl AsyncFnMut() -> T) {
    let (since, limit) = (Instant::now(), limit());
    loop {
        let seen = look().await;
        if seen == wanted {
            return;
        }
        assert!(since.elapsed() < limit, "after {limit:?} {what} is {seen:?}, not {wanted:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// For what must not happen: looks for this long, and each time it must be true.
pub async fn stays(what: &str, how_long: Duration, mut look: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while since.elapsed() < how_long {
        assert!(look().await, "after {:?} no longer: {what}", since.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
}

/// The future's value, which must come within the limit.
pub async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = limit();
    let value = tokio::time::timeout(limit, future).await;
    value.unwrap_or_else(|_| panic!("after {limit:?} there is still not: {what}"))
}
