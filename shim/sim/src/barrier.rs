//! Barriers of nodes with several processes each, as in `[Nemesis07]` §3.4 and figure 4.
//!
//! The ranks and the lines of memory are those of [`locks`](crate::locks): an access to a line that
//! another processor has takes a time, and a node's ranks share its card. The shared words are a
//! count and a signal, as in `strait_core::shm::BarrierSlot`; messages go round by the
//! dissemination algorithm.

use strait::LockDesign;
use strait_core::lock::WordAccess;

use crate::Wire;
use crate::locks::Costs;
use crate::locks::cluster::{Cluster, ClusterRank};
use crate::locks::state::{Lock, Word};

/// How the ranks meet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BarrierDesign {
    /// All ranks exchange messages, wherever they are.
    Messages,
    /// The ranks of a node meet at shared words, and one of each node exchanges messages with those
    /// of the others.
    Leaders,
}

/// Number of barriers of which the mean counts.
const TIMES: u32 = 8;

/// The nodes of the paper. It gives 341 ns for a message on a node. Assumed are 50 ns for a line of
/// an Opteron of 2006, and 30 µs for a message through its gigabit Ethernet, of which the sender's
/// and the card's parts are 5 µs each.
const OF_2007: Costs = Costs {
    wire: Wire {
        post: 5_000,
        poll: 50,
        write: 25_000,
        read: 50_000,
        acknowledge: 0,
        gap: 5_000,
        bandwidth: 125_000_000,
        ..Wire::INFINIBAND_2004
    },
    line: 50,
    own_line: 5,
    message: 341,
    ..Costs::OF_2004
};

/// Returns the time of a barrier of `nodes` nodes with `per_node` ranks each, in nanoseconds.
#[must_use]
pub fn barrier(design: BarrierDesign, nodes: u32, per_node: u32) -> f64 {
    let ranks = nodes * per_node;
    let places = (0..nodes).flat_map(|node| vec![node; per_node as usize]).collect();
    let rounds = ranks.next_power_of_two().trailing_zeros();
    // Each round of each barrier has a window with flags of its own, and each barrier one with its
    // own count and signal.
    let cluster = Cluster::new(OF_2007, LockDesign::Mcs, places);
    let (times, _) = cluster.play(|rank| {
        for number in 0..TIMES {
            let base = number * (rounds + 1);
            match design {
                BarrierDesign::Messages => disseminate(rank, base, ranks, 1),
                BarrierDesign::Leaders => meet(rank, base, nodes, per_node),
            }
        }
        rank.now()
    });
    times.into_iter().max().unwrap_or(0) as f64 / f64::from(TIMES)
}

/// Exchanges messages in rounds: with the rank 1, 2, 4, … further on, of every `stride`-th rank.
fn disseminate(rank: &ClusterRank<'_>, base: u32, members: u32, stride: u32) {
    let own = rank.rank / stride;
    let mut distance = 1;
    let mut round = base;
    while distance < members {
        let to = (own + distance) % members * stride;
        rank.send_flag(Lock { window: round, target: to });
        rank.await_flag(Lock { window: round, target: rank.rank });
        distance *= 2;
        round += 1;
    }
}

/// Meets the other ranks of the node at shared words, and lets its first rank meet the other nodes.
fn meet(rank: &ClusterRank<'_>, base: u32, nodes: u32, per_node: u32) {
    let leader = rank.rank / per_node * per_node;
    let lock = Lock { window: base, target: leader };
    let others = leader..leader + per_node;
    let before = rank.touch(lock, Word::Cpu, WordAccess::FetchAdd(1));
    let is_last = before + 1 == u64::from(per_node);
    if nodes > 1 {
        // The rank that enters last tells the leader, which tells all others when it is back.
        if is_last {
            rank.touch(lock, Word::Last, WordAccess::Write(1));
            rank.wake(leader..leader + 1);
        }
        if rank.rank == leader {
            rank.await_word(lock, Word::Last);
            disseminate(rank, base + 1, nodes, per_node);
        }
    }
    if (nodes > 1 && rank.rank == leader) || (nodes == 1 && is_last) {
        rank.touch(lock, Word::Tag, WordAccess::Write(1));
        rank.wake(others);
    } else {
        rank.await_word(lock, Word::Tag);
    }
}

impl ClusterRank<'_> {
    /// Sends a message to the target of `lock`.
    fn send_flag(&self, lock: Lock) {
        let word = (Word::Flag(lock.target), lock.target);
        if self.is_near(lock.target) {
            self.deliver(lock, word.0);
        } else {
            self.post(lock, word, WordAccess::Write(1), false);
        }
    }

    /// Waits for the message that comes to this rank in `lock`.
    fn await_flag(&self, lock: Lock) {
        while self.state().look(lock, Word::Flag(self.rank)) == 0 {
            self.park();
        }
    }

    /// Waits until a shared word is set. A rank that waits has the line in its cache, and fetches
    /// it again when it is written.
    fn await_word(&self, lock: Lock, word: Word) {
        while self.touch(lock, word, WordAccess::Read) == 0 {
            self.park();
        }
    }
}
