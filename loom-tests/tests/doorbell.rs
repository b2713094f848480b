//! The doorbell: a sender publishes and then polls the bell, while the owner lies down and then
//! polls the queue.
//!
//! It runs only under loom: natively, the sleeper's barrier is a system call that reaches the other
//! threads.
#![cfg(strait_loom)]

use strait_core::shm::{Doorbell, RecvQueue, Slumber};
use strait_core::sync::Ordering::{Relaxed, SeqCst};
use strait_core::sync::{AtomicU32, fence};
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

/// A rank that sleeps on descriptors, and the socket through which it is woken: the number of
/// datagrams in it.
struct OnDescriptors {
    bell: Doorbell,
    datagrams: AtomicU32,
    message: AtomicU32,
}

/// The datagrams of an earlier sleep are taken out before the announcement, so that none that ends
/// this sleep is.
#[test]
fn no_rank_sleeps_on_descriptors_beside_a_message() {
    model_in_full(|| {
        let shared = Arc::new(OnDescriptors {
            bell: Doorbell::awake(),
            datagrams: AtomicU32::new(0),
            message: AtomicU32::new(0),
        });
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.message.store(1, Relaxed);
                if shared.bell.is_wanted() && shared.bell.ring() == Some(Slumber::Descriptor) {
                    shared.datagrams.fetch_add(1, Relaxed);
                }
            })
        };
        let mut sleeps = false;
        for is_last in [false, true] {
            shared.datagrams.swap(0, Relaxed);
            shared.bell.prepare_to_sleep(Slumber::Descriptor, || fence(SeqCst));
            sleeps = shared.message.load(Relaxed) == 0;
            if !sleeps || !is_last {
                // The first sleep ends by its time limit.
                shared.bell.rise();
            }
            if !sleeps {
                break;
            }
        }
        sender.join().unwrap();
        let wakes = shared.datagrams.load(Relaxed) > 0;
        assert!(!sleeps || wakes, "asleep although a message is there");
    });
}

#[test]
fn no_rank_sleeps_beside_a_message() {
    model_in_full(|| send_to_a_sleeper(1));
}

#[test]
fn one_of_two_senders_wakes_the_sleeper() {
    model(|| send_to_a_sleeper(2));
}
