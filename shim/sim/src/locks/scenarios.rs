//! The scenarios of `[OneSided04]` §4.4 and `[HybridLock09]` §5. Times are in nanoseconds.

use strait::{LockDesign, LockPolicy};

use super::busy::BusyThreads;
use super::cluster::{Cluster, ClusterRank};
use super::state::{Costs, Lock, Word};

use LockDesign::Hybrid;

/// Number of locks that take many time slices.
const MANY_SLICES: u64 = 2_000;

const fn lock(target: u32) -> Lock {
    Lock { window: 0, target }
}

/// Places each of `ranks` ranks on a node of its own.
#[must_use]
pub fn apart(ranks: u32) -> Vec<u32> {
    (0..ranks).collect()
}

/// Returns `nodes` nodes of `ranks` ranks each.
#[must_use]
pub fn nodes(nodes: u32, ranks: u32) -> Vec<u32> {
    (0..nodes).flat_map(|node| vec![node; ranks as usize]).collect()
}

fn play<R: Send>(
    design: LockDesign,
    nodes: Vec<u32>,
    part: impl Fn(&ClusterRank<'_>) -> R + Sync,
) -> Vec<R> {
    play_at(Costs::OF_2004, design, nodes, part)
}

fn play_at<R: Send>(
    costs: Costs,
    design: LockDesign,
    nodes: Vec<u32>,
    part: impl Fn(&ClusterRank<'_>) -> R + Sync,
) -> Vec<R> {
    Cluster::new(costs, design, nodes).play(part).0
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len().max(1) as f64
}

/// One rank locks another repeatedly. Returns the times of both calls, of the acquisition and of
/// the release.
#[must_use]
pub fn overhead(design: LockDesign, nodes: Vec<u32>) -> [f64; 3] {
    const TIMES: u64 = 20;
    let times = play(design, nodes, |rank| {
        let mut times = [0; 2];
        for _ in 0..if rank.rank == 0 { TIMES } else { 0 } {
            let start = rank.now();
            let had = rank.lock(lock(1));
            let middle = rank.now();
            rank.unlock(lock(1), had);
            times[0] += middle - start;
            times[1] += rank.now() - middle;
        }
        times.map(|time| time as f64 / TIMES as f64)
    });
    let [acquire, release] = times[0];
    [acquire + release, acquire, release]
}

/// Returns the time from a release to the acquisition by the other rank, which waits.
#[must_use]
pub fn delay(costs: Costs, design: LockDesign) -> f64 {
    const ROUNDS: u64 = 32;
    let times = play_at(costs, design, apart(3), |rank| {
        let mut times = Vec::new();
        for round in 0..if rank.rank < 2 { ROUNDS } else { 0 } {
            let first = round % 2 == u64::from(rank.rank);
            let begin = round * 2_000_000 + if first { 0 } else { 60_000 };
            rank.spend(begin - rank.now());
            let had = rank.lock(lock(2));
            let acquired = rank.now();
            // The time is long and grows each round, so that the polls of the other rank fall at
            // varying moments.
            rank.spend(150_000 + 700 * round);
            times.push(if first { rank.now() } else { acquired });
            rank.unlock(lock(2), had);
        }
        times
    });
    let delays = (0..ROUNDS as usize).map(|round| {
        let [first, second] = [round % 2, 1 - round % 2].map(|rank| times[rank][round]);
        (second - first) as f64
    });
    mean(&delays.collect::<Vec<_>>())
}

/// Each of `origins` ranks has its own window of the last rank.
#[must_use]
pub fn windows(design: LockDesign, origins: u32) -> f64 {
    let times = play(design, apart(origins + 1), |rank| {
        let lock = Lock { window: rank.rank, target: origins };
        if rank.rank < origins { rank.lock_unlock(lock, 20) } else { 0.0 }
    });
    mean(&times[..origins as usize])
}

/// Returns the messages for each lock that `origins` ranks request at once.
#[must_use]
pub fn complexity(costs: Costs, design: LockDesign, origins: u32) -> f64 {
    const TIMES: u64 = 20;
    let cluster = Cluster::new(costs, design, apart(origins + 1));
    let (_, state) = cluster.play(|rank| {
        if rank.rank < origins { rank.lock_unlock(lock(origins), TIMES) } else { 0.0 }
    });
    state.messages.iter().sum::<u64>() as f64 / (u64::from(origins) * TIMES) as f64
}

/// Every rank of a node locks the next.
#[must_use]
pub fn neighbours(design: LockDesign, ranks: u32) -> f64 {
    mean(&play(design, nodes(1, ranks), |rank| rank.lock_unlock(lock((rank.rank + 1) % ranks), 20)))
}

/// `origins` ranks of a node request one lock.
#[must_use]
pub fn contention(costs: Costs, design: LockDesign, origins: u32) -> f64 {
    let times = play_at(costs, design, nodes(1, origins + 1), |rank| {
        if rank.rank < origins { rank.lock_unlock(lock(origins), 20) } else { 0.0 }
    });
    mean(&times[..origins as usize])
}

/// One rank of a node locks another once, which computes for `computes` nanoseconds meanwhile.
#[must_use]
pub fn target_computes(design: LockDesign, computes: u64) -> f64 {
    let times = play(design, nodes(1, 2), |rank| match rank.rank {
        0 => {
            rank.spend(1000);
            rank.lock_unlock(lock(1), 1)
        }
        _ => {
            rank.compute(computes);
            0.0
        }
    });
    times[0]
}

/// Passes once round a ring of ranks that compute a millisecond each, and poll for their tag every
/// 20 µs. Only the second round counts: as in the paper, locks are in network mode by then.
#[must_use]
pub fn ring(design: LockDesign, ranks: u32) -> f64 {
    let times = play(design, apart(ranks), |rank| {
        let laps = [1, 2].map(|lap| {
            rank.spend(lap * 100_000_000 - rank.now());
            go_round(rank, ranks, lap)
        });
        laps[1]
    });
    times[0]
}

fn go_round(rank: &ClusterRank<'_>, ranks: u32, lap: u64) -> f64 {
    const LOOK: u64 = 20_000;
    let start = rank.now();
    let pass = || {
        let next = lock((rank.rank + 1) % ranks);
        rank.enter();
        let had = rank.lock(next);
        rank.put(next, lap);
        rank.unlock(next, had);
    };
    let (mut left, mut passed) = (1_000_000, rank.rank == 0);
    if passed {
        pass();
    }
    loop {
        let arrived = rank.state().look(lock(rank.rank), Word::Tag) == lap;
        if arrived && !passed {
            pass();
            passed = true;
        }
        if left > 0 {
            rank.compute_on(LOOK);
            left -= LOOK;
            continue;
        }
        rank.enter();
        if arrived {
            return (rank.now() - start) as f64;
        }
        rank.wait_for_tag(lap, 1000);
    }
}

/// Of a hundred locks on the node, `percent` are each followed by one from another node. Returns
/// the times of a lock on the node and of one from the other node.
#[must_use]
pub fn migration(percent: u64) -> [f64; 2] {
    migration_among(3, percent)
}

/// The same among `members` members, of which two are on the node of the lock and each other one on
/// a node of its own. They come in turn.
#[must_use]
pub fn migration_among(members: u32, percent: u64) -> [f64; 2] {
    const LOCKS: u64 = 100;
    let far_at =
        |number: u64| ((number + 1) * percent + 50) / LOCKS > (number * percent + 50) / LOCKS;
    // Each lock has its own slot of time.
    let slot = |number: u64| number * 400_000;
    let visitors = u64::from(members - 2);
    let places = [0, 0].into_iter().chain(1..members - 1).collect();
    let times = play(Hybrid, places, |rank| {
        let mut times = Vec::new();
        for number in 0..LOCKS {
            // Visitors are spread over all members.
            let visitor = 2 + (number * (visitors / LOCKS).max(1) % visitors) as u32;
            let begin = match rank.rank {
                0 => continue,
                1 => slot(number),
                rank if far_at(number) && rank == visitor => slot(number) + 200_000,
                _ => continue,
            };
            rank.spend(begin - rank.now());
            times.push(rank.lock_unlock(lock(0), 1));
        }
        times
    });
    [mean(&times[1]), mean(&times[2..].concat())]
}

/// All `members` members of nodes with `per_node` ranks want the lock of the first one at the same
/// time, and hold it for a microsecond. Returns the time and the messages for each lock.
#[must_use]
pub fn crowd(costs: Costs, design: LockDesign, (members, per_node): (u32, u32)) -> [f64; 2] {
    let places = (0..members).map(|rank| rank / per_node).collect();
    let (times, state) = Cluster::new(costs, design, places).play(|rank| {
        if rank.rank > 0 {
            let had = rank.lock(lock(0));
            rank.spend(1000);
            rank.unlock(lock(0), had);
        }
        rank.now() as f64
    });
    let locks = f64::from(members - 1);
    let messages: u64 = state.messages.iter().sum();
    [times.into_iter().fold(0.0, f64::max) / locks, messages as f64 / locks]
}

/// The visits of one rank of a node, and of ranks of other nodes, to a lock of the node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Visits {
    /// Nearly all by the rank of the node, every 20th by one of another node.
    Rare,
    /// By both in turn.
    Alternating,
    /// 25 by the rank of the node, then 25 by the other, and so on.
    Phases,
}

/// Returns the mean time of 200 visits to a lock that migrates by `policy`.
#[must_use]
pub fn visits(policy: LockPolicy, visits: Visits) -> f64 {
    const VISITS: u64 = 200;
    let is_remote = |number: u64| match visits {
        Visits::Rare => number % 20 == 10,
        Visits::Alternating => number % 2 == 1,
        Visits::Phases => number / 25 % 2 == 1,
    };
    // Each visit has its own slot of time.
    let slot = |number: u64| number * 200_000;
    let cluster = Cluster::with_policy(Costs::OF_2004, (Hybrid, policy), vec![0, 0, 1]);
    let (times, _) = cluster.play(|rank| {
        let mut times = Vec::new();
        for number in 0..if rank.rank > 0 { VISITS } else { 0 } {
            if is_remote(number) != (rank.rank == 2) {
                continue;
            }
            rank.spend(slot(number) - rank.now());
            times.push(rank.lock_unlock(lock(0), 1));
        }
        times
    });
    mean(&times.concat())
}

/// Leaders lock, put and unlock at each rank of their own node, at each other leader, and at their
/// own ranks again.
#[must_use]
pub fn tasks(design: LockDesign, per_node: u32) -> f64 {
    const NODES: u32 = 4;
    const TIMES: u64 = 20;
    let times = play(design, nodes(NODES, per_node), |rank| {
        if rank.rank % per_node != 0 {
            return 0.0;
        }
        let own = || rank.rank + 1..rank.rank + per_node;
        let leaders = (0..NODES).map(|node| node * per_node).filter(|other| *other != rank.rank);
        let start = rank.now();
        for target in own().chain(leaders).chain(own()) {
            for _ in 0..TIMES {
                let had = rank.lock(lock(target));
                rank.put(lock(target), 1);
                rank.unlock(lock(target), had);
            }
        }
        (rank.now() - start) as f64
    });
    times.into_iter().fold(0.0, f64::max)
}

/// Returns the costs on nodes with this number of threads that never sleep.
fn beside(threads: u32) -> Costs {
    Costs { busy: BusyThreads { threads, ..BusyThreads::NONE }, ..Costs::OF_2004 }
}

/// Processes of one node each lock a process of another node, `[OneSided04]` figure 4.9. A node of
/// two processors has a process of each pair. In the polling thread's design it has as many threads
/// besides, which never sleep either.
#[must_use]
pub fn pairs_on_nodes(design: LockDesign, pairs: u32) -> f64 {
    let times = play_at(beside(2 * pairs), design, nodes(2, pairs), |rank| {
        if rank.rank < pairs { rank.lock_unlock(lock(rank.rank + pairs), MANY_SLICES) } else { 0.0 }
    });
    mean(&times[..pairs as usize])
}

/// One rank locks another, which has `computing` threads that compute, `[OneSided04]` figure 4.8.
/// In the polling thread's design that thread shares the two processors with them. The target's
/// main thread sleeps.
#[must_use]
pub fn beside_threads(design: LockDesign, computing: u32) -> f64 {
    let times = play_at(beside(1 + computing), design, apart(2), |rank| {
        if rank.rank == 0 { rank.lock_unlock(lock(1), MANY_SLICES) } else { 0.0 }
    });
    times[0]
}
