//! The doorbell: a sender publishes and then polls the bell, while the owner lies down and then
//! polls the queue.
//!
//! It runs only under loom: natively, the sleeper's barrier is a system call that reaches the other
//! threads.
#![cfg(strait_loom)]

use strait_core::shm::{Doorbell, RecvQueue, Slumber};
use strait_core::sync::{Ordering::SeqCst, fence};
use strait_loom_tests::{Arc, Owner, Pool, model, model_in_full, thread};

struct Shared {
    bell: Doorbell,
    queue: RecvQueue,
    pool: Pool,
}

impl Shared {
    /// Sends one message, and rings if the owner of the queue sleeps. Returns true if the owner
    /// must be woken.
    fn send(&self, source: u32) -> bool {
        let cell = Owner::new(&self.pool, source).take(&self.pool).unwrap();
        self.pool.write(cell, source, 0);
        self.queue.enqueue(&self.pool, cell).unwrap();
        self.bell.is_wanted() && self.bell.ring().is_some()
    }

    /// Polls a last time before sleeping. Returns true if the owner sleeps.
    fn lie_down(&self) -> bool {
        self.bell.prepare_to_sleep(Slumber::Word, || fence(SeqCst));
        let sleeps = self.queue.dequeue(&self.pool).unwrap().is_none();
        if !sleeps {
            self.bell.rise();
        }
        sleeps
    }
}

/// Lets `senders` threads send one message each while the owner lies down.
fn send_to_a_sleeper(senders: u32) {
    let shared = Arc::new(Shared {
        bell: Doorbell::awake(),
        queue: RecvQueue::empty(),
        pool: Pool::new(senders, 1),
    });
    let threads: Vec<_> = (0..senders)
        .map(|source| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(source))
        })
        .collect();
    let sleeps = shared.lie_down();
    let woken =
        threads.into_iter().filter_map(|thread| thread.join().unwrap().then_some(())).count();
    assert!(woken > 0 || !sleeps, "asleep although a message has arrived");
    assert!(woken <= 1, "woken more than once");
}

#[test]
fn no_rank_sleeps_beside_a_message() {
    model_in_full(|| send_to_a_sleeper(1));
}

#[test]
fn one_of_two_senders_wakes_the_sleeper() {
    model(|| send_to_a_sleeper(2));
}
