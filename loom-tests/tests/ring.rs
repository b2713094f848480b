//! The RDMA channel's memory: places that a device writes while a processor polls them. A thread
//! plays the peer's device, which writes a message before the flag that announces it.

use strait_core::ring::{Counter, Landing, LandingHead};
use strait_core::sync::Ordering::Release;
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model_in_full, thread};

/// One direction of a link with slots: messages arrive here, credits go back.
struct Slots {
    landings: Vec<Landing>,
    credit: Counter,
}

impl Slots {
    fn new(slots: usize) -> Arc<Self> {
        let landings = (0..slots).map(|_| Landing::empty()).collect();
        Arc::new(Self { landings, credit: Counter::zero() })
    }

    fn at(&self, number: u64) -> &Landing {
        &self.landings[(number - 1) as usize % self.landings.len()]
    }

    /// Sends messages up to `last`, as the sender and its device do; fewer if no credit arrives.
    /// Returns the number of messages written.
    fn send(&self, last: u64) -> u64 {
        for number in 1..=last {
            let mut looks = 0;
            while self.credit.read() + (self.landings.len() as u64) < number {
                looks += 1;
                if looks > 1 {
                    return number - 1;
                }
                thread::yield_now();
            }
            let head = LandingHead { length: number as u32, ..LandingHead::default() };
            // SAFETY: the model checks that the credit gives this place to the sender.
            self.at(number).cell().with_mut(|to| unsafe { *to = head });
            self.at(number).flag().store(number, Release);
        }
        last
    }

    /// Takes message `number` if it has arrived, and lets the receiver's device give its credit.
    fn take(&self, number: u64) -> bool {
        let landing = self.at(number);
        if !landing.holds(number) {
            return false;
        }
        // SAFETY: the message has arrived.
        let head = unsafe { landing.head() };
        assert_eq!(u64::from(head.length), number, "the head of another message");
        self.credit.word().store(number, Release);
        true
    }
}

/// Sends `last` messages through `slots` slots. Meanwhile the receiver polls `looks` times.
fn pass(slots: usize, last: u64, looks: u32) {
    let slots = Slots::new(slots);
    let sending = thread::spawn({
        let slots = Arc::clone(&slots);
        move || slots.send(last)
    });
    let mut next = 1;
    for _ in 0..looks {
        if slots.take(next) {
            next += 1;
        } else {
            thread::yield_now();
        }
    }
    let sent = sending.join().unwrap();
    while slots.take(next) {
        next += 1;
    }
    assert_eq!(next, sent + 1, "a message was lost or found twice");
}

#[test]
fn one_slot_is_used_in_turn() {
    model_in_full(|| pass(1, 3, 3));
}

#[test]
fn an_older_flag_of_a_slot_is_no_news() {
    model_in_full(|| pass(2, 3, 3));
}

/// One direction of a link of the basic design: a ring of one word, and two pointers.
struct Ring {
    word: UnsafeCell<u64>,
    head: Counter,
    tail: Counter,
}

// SAFETY: the model checks that one side at a time accesses the word.
unsafe impl Sync for Ring {}
// SAFETY: see the preceding `Sync`.
unsafe impl Send for Ring {}

#[test]
fn a_word_changes_hands_with_head_and_tail() {
    const LAST: u64 = 2;
    model_in_full(|| {
        let ring = Arc::new(Ring {
            word: UnsafeCell::new(0),
            head: Counter::zero(),
            tail: Counter::zero(),
        });
        let sending = thread::spawn({
            let ring = Arc::clone(&ring);
            move || {
                let mut head = 0;
                for _ in 0..4 {
                    if head < LAST && head == ring.tail.read() {
                        // SAFETY: the model checks that one side at a time accesses the word (see
                        // `Sync`).
                        ring.word.with_mut(|to| unsafe { *to = head });
                        head += 1;
                        ring.head.word().store(head, Release);
                    } else {
                        thread::yield_now();
                    }
                }
                head
            }
        });
        let mut tail = 0;
        let mut get = || {
            let head = ring.head.read();
            while tail < head {
                // SAFETY: the model checks that one side at a time accesses the word (see `Sync`).
                let found = ring.word.with(|from| unsafe { *from });
                assert_eq!(found, tail, "a word of another lap");
                tail += 1;
            }
            ring.tail.word().store(tail, Release);
        };
        (0..3).for_each(|_| get());
        let head = sending.join().unwrap();
        get();
        assert_eq!(tail, head, "words were lost");
    });
}
