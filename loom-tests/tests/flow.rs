//! Flow control of unexpected messages: a receiver that is full says so before it gives memory back
//! to the sender, calls for one message after the other, and answers synchronous messages.

use strait_core::shm::FlowWords;
use strait_core::shm::RecvQueue;
use strait_core::sync::AtomicU32;
use strait_core::sync::Ordering::Relaxed;
use strait_core::wire::Offer;
use strait_loom_tests::{Arc, Owner, Pool, model_in_full, thread};

/// The memory between a sender with one cell and a receiver.
struct Pair {
    flow: FlowWords,
    queue: RecvQueue,
    pool: Pool,
}

impl Pair {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            flow: FlowWords::empty(),
            queue: RecvQueue::empty(),
            pool: Pool::new(1, 1),
        })
    }

    /// Receives the message of the one cell, after which the receiver is full.
    fn receive(&self) -> bool {
        let Some(cell) = self.queue.dequeue(&self.pool).unwrap() else { return false };
        self.flow.set_full(true);
        self.pool.give_back(cell);
        true
    }
}

/// A sender that gets a cell back knows that the receiver became full by that cell's message. So
/// what a full receiver still gets is bounded by the cells that its sender has.
#[test]
fn a_sender_with_a_cell_back_sees_that_the_receiver_is_full() {
    model_in_full(|| {
        let pair = Pair::new();
        let mut owner = Owner::new(&pair.pool, 0);
        let cell = owner.take(&pair.pool).unwrap();
        pair.pool.write(cell, 0, 0);
        pair.queue.enqueue(&pair.pool, cell).unwrap();
        let receiver = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || pair.receive())
        };
        if owner.take(&pair.pool).is_some() {
            assert!(pair.flow.is_full(), "a message more than the receiver has room for");
        }
        assert!(receiver.join().unwrap());
        assert!(pair.flow.is_full());
    });
}

/// The number and the place of an offer are in one word, and calls are seen in their order.
#[test]
fn calls_are_seen_whole_and_in_their_order() {
    model_in_full(|| {
        let pair = Pair::new();
        let offer = |number| Offer { total: 0, place: 10 * number, number };
        let receiver = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                pair.flow.call(offer(1));
                pair.flow.call(offer(2));
            })
        };
        let found = [0; 3].map(|_| pair.flow.called());
        assert!(found.iter().all(|(place, number)| *place == 10 * number), "{found:?}");
        assert!(found.is_sorted_by_key(|(_, number)| *number), "{found:?}");
        receiver.join().unwrap();
        assert_eq!(pair.flow.called(), (20, 2));
    });
}

/// A sender that sees that its receive has started sees what the receiver did before that.
#[test]
fn a_receive_that_has_started_shows_what_came_before_it() {
    model_in_full(|| {
        let pair = Pair::new();
        let before = Arc::new(AtomicU32::new(0));
        let receiver = {
            let (pair, before) = (Arc::clone(&pair), Arc::clone(&before));
            thread::spawn(move || {
                before.store(1, Relaxed);
                pair.flow.set_matched(0b01);
                before.store(2, Relaxed);
                pair.flow.set_matched(0b11);
            })
        };
        let matched = pair.flow.matched();
        let seen = before.load(Relaxed);
        assert!(seen >= matched.count_ones(), "{matched:#b} after {seen}");
        receiver.join().unwrap();
        assert_eq!(pair.flow.matched(), 0b11);
    });
}
