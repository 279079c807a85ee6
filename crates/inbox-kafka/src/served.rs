//! Serving a client's callbacks while something waits for its answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;

use crate::context::Context;

/// Polls the client, which has no subscription yet, while the work asks it: tokens are asked for, and
/// errors told, by polling only. Blocks.
pub(crate) fn while_served<T>(consumer: &BaseConsumer<Context>, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ends = Ends(&done);
        threads.spawn(|| {
            while !done.load(Ordering::Acquire) {
                // What it says the context has noted.
                drop(consumer.poll(Duration::from_millis(20)));
            }
        });
        work()
    })
}

/// Also when the work panics, or the scope would wait for ever.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
