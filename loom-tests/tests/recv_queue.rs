//! The receive queue, with cells recycled through free queues as in production.

use strait_core::layout::CellIndex;
use strait_core::shm::RecvQueue;
use strait_loom_tests::{Arc, Owner, Pool, model, model_in_full, thread};

/// One consumer's queue, and the cells of its senders.
struct Shared {
    queue: RecvQueue,
    pool: Pool,
}

/// The consumer, which checks that each source's messages arrive completely and in order.
struct Consumer {
    shared: Arc<Shared>,
    received: Vec<u64>,
}

impl Shared {
    fn new(producers: u32, cells: u32) -> Arc<Self> {
        Arc::new(Self { queue: RecvQueue::empty(), pool: Pool::new(producers, cells) })
    }

    fn send(&self, cell: CellIndex, source: u32, sequence: u64) {
        self.pool.write(cell, source, sequence);
        self.queue.enqueue(&self.pool, cell).unwrap();
    }

    /// Sends up to `messages` messages; fewer if no cell returns in time. Returns the number.
    fn produce(&self, owner: &mut Owner, source: u32, messages: u64) -> u64 {
        let mut sent = 0;
        while sent < messages
            && let Some(cell) = owner.take(&self.pool)
        {
            self.send(cell, source, sent);
            sent += 1;
        }
        sent
    }
}

impl Consumer {
    fn new(shared: &Arc<Shared>, sources: u32) -> Self {
        Self { shared: Arc::clone(shared), received: vec![0; sources as usize] }
    }

    /// Takes a message if `dequeue` finds one, and returns its cell.
    fn look(&mut self) -> bool {
        let Shared { queue, pool } = &*self.shared;
        let Some(cell) = queue.dequeue(pool).unwrap() else { return false };
        let (source, sequence) = pool.read(cell);
        let expected = &mut self.received[source as usize];
        assert_eq!(sequence, *expected, "source {source}: out of order or corrupted");
        *expected += 1;
        pool.give_back(cell);
        true
    }

    /// Takes all messages, when no rank sends any more.
    fn drain(&mut self) {
        while self.shared.queue.has_news() {
            assert!(self.look(), "the queue has news, but no message is found");
        }
        assert!(!self.look(), "the queue has no news, but a message is found");
        assert!(!self.shared.queue.awaits_link());
    }
}

/// Lets `producers` threads send up to `messages` messages each, from `cells` cells each. Meanwhile
/// the consumer polls `looks` times.
fn exchange(producers: u32, cells: u32, messages: u64, looks: u32) {
    let shared = Shared::new(producers, cells);
    let mut consumer = Consumer::new(&shared, producers);
    let threads: Vec<_> = (0..producers)
        .map(|source| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut owner = Owner::new(&shared.pool, source);
                (shared.produce(&mut owner, source, messages), owner)
            })
        })
        .collect();
    for _ in 0..looks {
        consumer.look();
    }
    let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    consumer.drain();
    for ((sent, mut owner), received) in ends.into_iter().zip(&consumer.received) {
        assert_eq!(sent, *received, "messages lost");
        assert_eq!(owner.collect(&shared.pool), cells as usize, "cells lost");
    }
}

#[test]
fn nothing_is_lost() {
    model(|| exchange(2, 1, 2, 3));
}

#[test]
fn cells_go_round_with_two_in_flight() {
    model(|| exchange(2, 2, 3, 3));
}

#[test]
fn one_producer_runs_ahead() {
    model_in_full(|| exchange(1, 2, 3, 3));
}

#[test]
fn three_producers_meet_in_an_empty_queue() {
    model(|| exchange(3, 1, 1, 3));
}

/// The consumer of a queue has died. A rank has a cell in that queue. It reuses the cell for a
/// message to another rank as soon as another producer has linked its own cell behind. That link
/// must not appear in the other queue.
#[test]
fn a_linked_cell_of_a_dead_queue_is_used_again() {
    model(|| {
        let shared = Shared::new(2, 2);
        let dead = Arc::new(RecvQueue::empty());
        let pool = &shared.pool;
        let cell = Owner::new(pool, 0).take(pool).unwrap();
        pool.write(cell, 0, 0);
        dead.enqueue(pool, cell).unwrap();

        let producer = {
            let (shared, dead) = (Arc::clone(&shared), Arc::clone(&dead));
            thread::spawn(move || {
                let mut owner = Owner::new(&shared.pool, 1);
                while let Some(cell) = owner.take(&shared.pool) {
                    shared.pool.write(cell, 1, 0);
                    dead.enqueue(&shared.pool, cell).unwrap();
                }
            })
        };
        let reuser = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let linked = (0..2).any(|_| RecvQueue::is_linked(&shared.pool, cell));
                if linked {
                    shared.send(cell, 0, 0);
                }
                linked
            })
        };
        let mut consumer = Consumer::new(&shared, 1);
        let found = (0..2).filter(|_| consumer.look()).count();
        producer.join().unwrap();
        let sent = reuser.join().unwrap();
        consumer.drain();
        assert_eq!(consumer.received, [u64::from(sent)], "{found} found while the threads ran");
    });
}
