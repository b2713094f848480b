//! The doorbell: publishing and then looking at the bell, against lying down and then looking at the queue.
//!
//! Under loom alone: natively the sleeper's barrier is a system call that reaches the other threads.
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
    /// Sends one message, and rings if the owner of the queue sleeps. Says whether the owner is to be woken.
    fn send(&self, source: u32) -> bool {
        let cell = Owner::new(&self.pool, source).take(&self.pool).unwrap();
        self.pool.write(cell, source, 0);
        self.queue.enqueue(&self.pool, cell).unwrap();
        self.bell.is_wanted() && self.bell.ring().is_some()
    }

    /// Looks a last time before it sleeps. Says whether it sleeps.
    fn lie_down(&self) -> bool {
        self.bell.lie_down(Slumber::Word, || fence(SeqCst));
        let sleeps = self.queue.dequeue(&self.pool).unwrap().is_none();
        if !sleeps {
            self.bell.rise();
        }
        sleeps
    }
}

/// `senders` send one message each while the owner lies down.
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
    assert!(woken > 0 || !sleeps, "asleep beside a message");
    assert!(woken <= 1, "woken more than once");
}

#[test]
fn nobody_sleeps_beside_a_message() {
    model_in_full(|| send_to_a_sleeper(1));
}

#[test]
fn one_of_two_senders_wakes_the_sleeper() {
    model(|| send_to_a_sleeper(2));
}
