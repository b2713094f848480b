//! The repair of a receive queue after producers were killed between their swap and their link.

use strait_core::layout::{CellIndex, Life, Liveness};
use strait_core::shm::RecvQueue;
use strait_core::shm::recovery::{self, Producers, Repair};
use strait_loom_tests::{Arc, Owner, Pool, model, model_in_full, thread};

/// The rank that owns the queue, as the in-flight markers name it. It sends nothing.
const CONSUMER: u32 = 9;

/// Where a producer is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Killed {
    BeforeSwap,
    AfterSwap,
    /// After the link, with its in-flight marker still set.
    AfterLink,
}

struct Shared {
    queue: RecvQueue,
    pool: Pool,
    ranks: Vec<Liveness>,
}

/// What the consumer knows about the senders.
struct Senders<'a> {
    shared: &'a Shared,
    /// Number of the next message of each sender.
    expected: &'a [u64],
    /// The senders that were known to be dead before the repair started.
    dead: Vec<bool>,
}

impl Producers for Senders<'_> {
    fn ranks(&self) -> u32 {
        self.shared.ranks.len() as u32
    }

    fn cells(&self) -> u32 {
        // More than there are: only a cycle of cells would reach it.
        64
    }

    fn is_dead(&self, rank: u32) -> bool {
        self.dead[rank as usize]
    }

    fn in_flight(&self, rank: u32) -> Option<CellIndex> {
        self.shared.ranks[rank as usize].in_flight.holds_for(&self.shared.pool, CONSUMER)
    }

    fn place(&self, cell: CellIndex) -> (u32, u64) {
        self.shared.pool.read(cell)
    }

    fn is_taken(&self, source: u32, sequence: u64) -> bool {
        sequence < self.expected[source as usize]
    }
}

impl Shared {
    fn new(ranks: u32, cells: u32) -> Arc<Self> {
        Arc::new(Self {
            queue: RecvQueue::empty(),
            pool: Pool::new(ranks, cells),
            ranks: (0..ranks).map(|_| Liveness::unborn()).collect(),
        })
    }

    /// Sends up to `messages` messages; fewer if no cell returns in time. Returns the number.
    fn send(&self, owner: &mut Owner, rank: u32, messages: u64) -> u64 {
        let mut sent = 0;
        while sent < messages
            && let Some(cell) = owner.take(&self.pool)
        {
            self.pool.write(cell, rank, sent);
            let hand = &self.ranks[rank as usize].in_flight;
            hand.enqueue(&self.queue, &self.pool, CONSUMER, cell).unwrap();
            sent += 1;
        }
        sent
    }

    /// Sends `before` messages, and is killed at the next one. Returns the number of complete
    /// messages.
    fn die(&self, rank: u32, before: u64, killed: Killed) -> u64 {
        let mut owner = Owner::new(&self.pool, rank);
        let sent = self.send(&mut owner, rank, before);
        if let Some(cell) = owner.take(&self.pool) {
            self.pool.write(cell, rank, sent);
            self.ranks[rank as usize].in_flight.hold(&self.pool, CONSUMER, cell);
            if killed != Killed::BeforeSwap {
                let last = self.queue.swap(&self.pool, cell).unwrap();
                if killed == Killed::AfterLink {
                    self.queue.link(&self.pool, last, cell);
                }
            }
        }
        self.ranks[rank as usize].end(Life::Dead);
        sent
    }
}

/// The consumer, which checks that each source's messages arrive completely and in order.
struct Consumer {
    shared: Arc<Shared>,
    expected: Vec<u64>,
}

impl Consumer {
    fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), expected: vec![0; shared.ranks.len()] }
    }

    /// Takes a message if `dequeue` finds one, and returns its cell.
    fn look(&mut self) -> bool {
        let Shared { queue, pool, .. } = &*self.shared;
        let Some(cell) = queue.dequeue(pool).unwrap() else { return false };
        let (source, sequence) = pool.read(cell);
        let expected = &mut self.expected[source as usize];
        assert_eq!(sequence, *expected, "source {source}: out of order or corrupted");
        *expected += 1;
        pool.give_back(cell);
        true
    }

    fn repair(&self) -> Repair {
        let Shared { queue, pool, ranks } = &*self.shared;
        let dead = ranks.iter().map(|rank| rank.state() == Life::Dead).collect();
        let senders = Senders { shared: &self.shared, expected: &self.expected, dead };
        recovery::repair(queue, pool, &senders).unwrap()
    }

    /// Acts as the engine does when it learns of a death: once all cells are in one chain, takes
    /// all.
    fn look_for_the_dead(&mut self) {
        if self.shared.ranks.iter().any(|rank| rank.state() == Life::Dead)
            && self.repair() == Repair::Whole
        {
            while self.look() {}
        }
    }

    /// Takes all messages, when no rank sends any more.
    fn drain(&mut self) {
        while self.look() {}
        assert_eq!(self.repair(), Repair::Whole, "no living rank is about to link");
        while self.look() {}
        assert!(!self.shared.queue.awaits_link(), "the queue is still broken");
        assert_eq!(self.repair(), Repair::Whole);
        assert!(!self.look(), "a message was found twice");
    }
}

/// Lets the ranks of `deaths` send some messages and be killed at the next one. One more rank sends
/// `survivor` messages and lives. The consumer polls and repairs meanwhile.
fn exchange(deaths: &'static [(u64, Killed)], survivor: u64) {
    let dead = deaths.len() as u32;
    let shared = Shared::new(dead + 1, 2);
    let threads: Vec<_> = (0..=dead)
        .map(|rank| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || match deaths.get(rank as usize) {
                Some(&(before, killed)) => shared.die(rank, before, killed),
                None => shared.send(&mut Owner::new(&shared.pool, rank), rank, survivor),
            })
        })
        .collect();
    let mut consumer = Consumer::new(&shared);
    consumer.look();
    consumer.look_for_the_dead();
    let sent: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    consumer.drain();
    check(deaths, &sent, &consumer.expected);
}

fn check(deaths: &[(u64, Killed)], sent: &[u64], received: &[u64]) {
    for (rank, (&sent, &received)) in sent.iter().zip(received).enumerate() {
        match deaths.get(rank).map(|(_, killed)| killed) {
            None => assert_eq!(received, sent, "a survivor's messages are lost"),
            Some(Killed::BeforeSwap) => assert_eq!(received, sent, "rank {rank} did not send it"),
            Some(Killed::AfterLink) => assert_eq!(received, sent + 1, "rank {rank} sent it"),
            Some(Killed::AfterSwap) => assert!([sent, sent + 1].contains(&received)),
        }
    }
}

#[test]
fn killed_before_the_swap() {
    model(|| exchange(&[(1, Killed::BeforeSwap)], 2));
}

#[test]
fn killed_between_swap_and_link() {
    model(|| exchange(&[(0, Killed::AfterSwap)], 2));
}

#[test]
fn killed_between_swap_and_link_of_a_later_message() {
    model(|| exchange(&[(1, Killed::AfterSwap)], 2));
}

#[test]
fn killed_after_the_link() {
    model(|| exchange(&[(0, Killed::AfterLink)], 2));
}

#[test]
fn two_killed_and_a_survivor() {
    model(|| exchange(&[(0, Killed::AfterSwap), (0, Killed::AfterSwap)], 2));
}

#[test]
fn one_killed_before_and_one_after_the_swap() {
    model(|| exchange(&[(0, Killed::BeforeSwap), (0, Killed::AfterSwap)], 2));
}

/// Two breaks with a message of rank 2 between them. Rank 3 sends behind them during the repair.
/// The order of the two chains follows only from the fact that one of them continues to the tail.
#[test]
fn a_survivor_sends_while_two_chains_are_put_in_order() {
    model_in_full(|| {
        let shared = Shared::new(4, 2);
        let pool = &shared.pool;
        shared.die(1, 0, Killed::AfterSwap);
        shared.send(&mut Owner::new(pool, 2), 2, 1);
        shared.die(0, 0, Killed::AfterSwap);
        let survivor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(&mut Owner::new(&shared.pool, 3), 3, 2))
        };
        let mut consumer = Consumer::new(&shared);
        consumer.look_for_the_dead();
        survivor.join().unwrap();
        consumer.drain();
        assert_eq!(consumer.expected, [1, 1, 1, 2]);
    });
}

/// The chains of several dead ranks in every order of their numbers. Survivors' messages between
/// them must not overtake each other. One thread is enough, because the test checks only the order.
#[test]
fn chains_of_three_dead_ranks_are_put_in_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        model(move || {
            let shared = Shared::new(4, 4);
            let mut survivor = Owner::new(&shared.pool, 3);
            let send = |owner: &mut Owner, sequence| {
                let cell = owner.take(&shared.pool).unwrap();
                shared.pool.write(cell, 3, sequence);
                let hand = &shared.ranks[3].in_flight;
                hand.enqueue(&shared.queue, &shared.pool, CONSUMER, cell).unwrap();
            };
            send(&mut survivor, 0);
            for (rank, sequence) in order.into_iter().zip(1..) {
                shared.die(rank, 0, Killed::AfterSwap);
                send(&mut survivor, sequence);
            }
            let mut consumer = Consumer::new(&shared);
            consumer.drain();
            assert_eq!(consumer.expected, [1, 1, 1, 4]);
        });
    }
}

/// The consumer is dead. A rank takes its cell out of that queue and puts it into another one,
/// while a living rank continues to append. The cell gets no late link, and is free once the living
/// rank's in-flight marker is empty.
#[test]
fn a_cell_without_a_link_comes_back_from_a_dead_queue() {
    model(|| {
        let shared = Shared::new(2, 2);
        let pool = &shared.pool;
        let cell = Owner::new(pool, 0).take(pool).unwrap();
        pool.write(cell, 0, 0);
        shared.queue.enqueue(pool, cell).unwrap();

        let producer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(&mut Owner::new(&shared.pool, 1), 1, 2))
        };
        let regain = || {
            let senders = Senders { shared: &shared, expected: &[0, 0], dead: vec![false; 2] };
            recovery::regain(&shared.queue, pool, &senders, cell).unwrap()
        };
        let regained = regain();
        if regained {
            RecvQueue::empty().enqueue(pool, cell).unwrap();
        }
        producer.join().unwrap();
        if regained {
            assert!(!RecvQueue::is_linked(pool, cell), "a late link");
        } else {
            assert!(regain());
        }
    });
}
