//! What threads of ours share, with shuttle in place of the standard library: many
//! interleavings are tried. A failure prints its seed; `SHUTTLE_RANDOM_SEED` repeats it.

mod sync {
    pub(super) use std::sync::PoisonError;

    pub(super) use shuttle::sync::mpsc::Sender;
    pub(super) use shuttle::sync::{Arc, Mutex};
    pub(super) use shuttle::thread::{Thread, current};
}
#[path = "../../crates/inbox-kafka/src/poll/waker.rs"]
mod waker;

use shuttle::sync::mpsc::{Receiver, channel};
use shuttle::thread;
use waker::{Waker, Wakes};

fn many_interleavings(threads: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(threads, 10_000);
}

/// As the poll thread does it, but it parks without a limit: a lost wake would be a deadlock, which
/// shuttle reports.
fn receive(received: &Receiver<u8>, waker: &Waker, wanted: usize) -> Vec<u8> {
    waker.is_this_thread();
    let mut got = Vec::new();
    loop {
        while let Ok(wake) = received.try_recv() {
            got.push(wake);
        }
        if got.len() == wanted {
            return got;
        }
        thread::park();
    }
}

#[test]
fn what_is_sent_is_received_whenever_the_thread_starts() {
    many_interleavings(|| {
        let (sender, received) = channel();
        let wakes = Wakes { sender, waker: Waker::default() };
        let thread = wakes.waker.clone();
        let other = thread::spawn(move || wakes.send(1));
        assert_eq!(receive(&received, &thread, 1), [1]);
        other.join().expect("it sends");
    });
}

#[test]
fn of_two_senders_at_once_both_are_heard() {
    many_interleavings(|| {
        let (sender, received) = channel();
        let wakes = Wakes { sender, waker: Waker::default() };
        let senders: Vec<_> = [1, 2]
            .into_iter()
            .map(|n| {
                let wakes = wakes.clone();
                thread::spawn(move || wakes.send(n))
            })
            .collect();
        let mut got = receive(&received, &wakes.waker, 2);
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        for sender in senders {
            sender.join().expect("it sends");
        }
    });
}

/// The thread sends to itself through what it shares, as its own callbacks do.
#[test]
fn a_wake_of_its_own_is_not_lost() {
    many_interleavings(|| {
        let (sender, received) = channel();
        let wakes = Wakes { sender, waker: Waker::default() };
        wakes.waker.is_this_thread();
        wakes.send(7);
        assert_eq!(receive(&received, &wakes.waker, 1), [7]);
    });
}
