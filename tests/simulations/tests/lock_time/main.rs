//! The lock designs measured as in the figures of `[OneSided04]` §4.4 and `[HybridLock09]` §5, in
//! virtual time, with as many nodes and processors as in the papers.
//!
//! Nothing here depends on the machine: a run is the same everywhere, to the nanosecond. With
//! `--nocapture` it prints the figures that `docs/window-locks-measured.md` quotes. The tests
//! assert the papers' orders where they are reproduced. Where they are not, that page explains why.

mod cluster;
mod member;
mod state;

use cluster::{Cluster, Rank};
use state::{Costs, Lock, Word};
use strait::LockDesign;

use LockDesign::{Event, Hybrid, Mcs, TestAndSet, Thread, TwoSided};

/// The designs of `[OneSided04]`.
const OF_2004: [LockDesign; 4] = [Thread, Event, TestAndSet, Mcs];

/// The designs of `[HybridLock09]`, which calls test-and-set by the device one-sided.
const OF_2009: [LockDesign; 3] = [TwoSided, TestAndSet, Hybrid];

/// Costs without any back-off.
const NO_BACKOFF: Costs = Costs { units: [0, 0], backoff: 1, ..Costs::OF_2004 };

/// Costs with the back-off that the library uses at all words.
const SHORT_BACKOFF: Costs = Costs { units: [500, 500], ..Costs::OF_2004 };

const fn lock(target: u32) -> Lock {
    Lock { window: 0, target }
}

/// Places each of `ranks` ranks on a node of its own.
fn apart(ranks: u32) -> Vec<u32> {
    (0..ranks).collect()
}

/// Returns `nodes` nodes of `ranks` ranks each.
fn nodes(nodes: u32, ranks: u32) -> Vec<u32> {
    (0..nodes).flat_map(|node| vec![node; ranks as usize]).collect()
}

fn play<R: Send>(
    design: LockDesign,
    nodes: Vec<u32>,
    part: impl Fn(&Rank<'_>) -> R + Sync,
) -> Vec<R> {
    play_at(Costs::OF_2004, design, nodes, part)
}

fn play_at<R: Send>(
    costs: Costs,
    design: LockDesign,
    nodes: Vec<u32>,
    part: impl Fn(&Rank<'_>) -> R + Sync,
) -> Vec<R> {
    let windows = nodes.len() as u32;
    Cluster::new(costs, design, nodes, windows).play(part).0
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len().max(1) as f64
}

/// Converts nanoseconds to microseconds.
fn micro(times: &[f64]) -> Vec<f64> {
    times.iter().map(|time| time / 1e3).collect()
}

fn tell(figure: &str, what: &str, values: &[f64]) {
    let values: Vec<String> = values.iter().map(|value| format!("{value:>9.2}")).collect();
    println!("{figure:<22} {what:<28} {}", values.join(" "));
}

/// One rank locks another repeatedly. Returns the times of both calls, of the acquisition and of
/// the release.
fn overhead(design: LockDesign, nodes: Vec<u32>) -> [f64; 3] {
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

/// Checks `[OneSided04]` figure 4.4.
#[test]
fn overhead_is_least_where_one_round_trip_is_all() {
    let figures = OF_2004.map(|design| {
        let figures = overhead(design, apart(2));
        tell("4.4 overhead, µs", &format!("{design}: both, acq., rel."), &micro(&figures));
        figures
    });
    let [[thread, ..], [event, ..], [swap, acquire, release], [mcs, ..]] = figures;
    assert!(swap < thread && thread < mcs.min(event));
    assert!(release * 10.0 < acquire, "no rank waits for a release");
}

/// Checks `[HybridLock09]` figure 6.
#[test]
fn on_a_node_processors_are_fastest_and_a_loop_back_slowest() {
    let figures = OF_2009.map(|design| overhead(design, nodes(1, 2))[0]);
    tell("6 on a node, µs", "two-sided, one-sided, hybrid", &micro(&figures));
    let [two_sided, one_sided, hybrid] = figures;
    assert!(hybrid < two_sided && two_sided < one_sided);
}

/// Returns the time from a release to the acquisition by the other rank, which waits.
fn delay(costs: Costs, design: LockDesign) -> f64 {
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

/// Checks `[OneSided04]` figure 4.5.
#[test]
fn a_longer_wait_delays_more() {
    let delays = OF_2004.map(|design| delay(NO_BACKOFF, design));
    tell("4.5 delay, µs", "thread, event, t&s, mcs", &micro(&delays));
    let backed_off = [SHORT_BACKOFF, Costs::OF_2004].map(|costs| delay(costs, TestAndSet));
    tell("4.5 delay, µs", "t&s, short and long back-off", &micro(&backed_off));
    let [_, event, swap, mcs] = delays;
    assert!(mcs.max(swap) < event && backed_off[0].min(backed_off[1]) > swap);
}

/// Each of `origins` ranks has its own window of the last rank.
fn windows(design: LockDesign, origins: u32) -> f64 {
    let times = play(design, apart(origins + 1), |rank| {
        let lock = Lock { window: rank.rank, target: origins };
        if rank.rank < origins { rank.lock_unlock(lock, 20) } else { 0.0 }
    });
    mean(&times[..origins as usize])
}

/// Checks `[OneSided04]` figure 4.6.
#[test]
fn devices_serve_windows_at_once_and_a_thread_one_by_one() {
    let figures = OF_2004.map(|design| {
        let times = (1..8).map(|origins| windows(design, origins)).collect::<Vec<_>>();
        tell("4.6 concurrency, µs", &format!("{design}: 1 to 7 origins"), &micro(&times));
        times
    });
    let [thread, event, swap, mcs] = figures;
    assert!(thread[6] > 1.5 * thread[0]);
    assert!(event[6] > 1.5 * event[3], "with so many requests it does not fall asleep");
    assert!([swap, mcs].iter().all(|times| times[6] < 1.1 * times[0]));
}

/// Returns the messages for each lock that `origins` ranks request at once.
fn complexity(costs: Costs, design: LockDesign, origins: u32) -> f64 {
    const TIMES: u64 = 20;
    let cluster = Cluster::new(costs, design, apart(origins + 1), 1);
    let (_, state) = cluster.play(|rank| {
        if rank.rank < origins { rank.lock_unlock(lock(origins), TIMES) } else { 0.0 }
    });
    state.messages.iter().sum::<u64>() as f64 / (u64::from(origins) * TIMES) as f64
}

/// Checks `[OneSided04]` figure 4.7.
#[test]
fn backing_off_takes_messages_away() {
    let of = |costs, design, what: &str| {
        let counts = (1..8).map(|origins| complexity(costs, design, origins)).collect::<Vec<_>>();
        tell("4.7 messages", what, &counts);
        counts
    };
    let thread = of(NO_BACKOFF, Thread, "thread: 1 to 7 origins");
    let event = of(NO_BACKOFF, Event, "event");
    let none = of(NO_BACKOFF, TestAndSet, "t&s, no back-off");
    let short = of(SHORT_BACKOFF, TestAndSet, "t&s, back-off of 0.5 µs");
    let long = of(Costs::OF_2004, TestAndSet, "t&s, of a round trip");
    let mcs = of(NO_BACKOFF, Mcs, "mcs");
    assert!([thread, event].iter().flatten().all(|count| *count == 3.0));
    assert!(long[6] < short[6] && short[6] < none[6], "it backs off");
    assert!(none[6] > 2.0 * none[0] && mcs[6] > 1.2 * mcs[0], "without a swap it tries again");
}

/// Every rank of a node locks the next.
fn neighbours(design: LockDesign, ranks: u32) -> f64 {
    mean(&play(design, nodes(1, ranks), |rank| rank.lock_unlock(lock((rank.rank + 1) % ranks), 20)))
}

/// Checks `[HybridLock09]` figure 8.
#[test]
fn loop_backs_share_the_device() {
    let figures = OF_2009.map(|design| {
        let times = [2, 4, 8, 16].map(|ranks| neighbours(design, ranks));
        tell("8 network cont., µs", &format!("{design}: 2, 4, 8, 16"), &micro(&times));
        times
    });
    let [two_sided, one_sided, hybrid] = figures;
    assert!(two_sided[3] < 1.1 * two_sided[0] && hybrid[3] < 1.1 * hybrid[0]);
    assert!(one_sided[3] > 2.0 * one_sided[0]);
    assert!((0..4).all(|at| hybrid[at] < two_sided[at] && two_sided[at] < one_sided[at]));
}

/// `origins` ranks of a node request one lock.
fn contention(costs: Costs, design: LockDesign, origins: u32) -> f64 {
    let times = play_at(costs, design, nodes(1, origins + 1), |rank| {
        if rank.rank < origins { rank.lock_unlock(lock(origins), 20) } else { 0.0 }
    });
    mean(&times[..origins as usize])
}

/// Checks `[HybridLock09]` figure 9.
#[test]
fn contention_for_one_lock_costs_most_by_loop_backs() {
    let of = |costs, design, what: &str| {
        let times = (1..9).map(|origins| contention(costs, design, origins)).collect::<Vec<_>>();
        tell("9 lock contention, µs", what, &micro(&times));
        times
    };
    let two_sided = of(NO_BACKOFF, TwoSided, "two_sided: 1 to 8");
    let one_sided = of(NO_BACKOFF, TestAndSet, "test_and_set, no back-off");
    let hybrid = of(NO_BACKOFF, Hybrid, "hybrid, no back-off");
    let backed_off = of(Costs::OF_2004, Hybrid, "hybrid");
    for at in 0..8 {
        assert!(two_sided[at] < one_sided[at], "one-sided performs the least");
        assert!(backed_off[at] < two_sided[at], "with back-off hybrid stays ahead");
    }
    assert!((0..3).all(|at| hybrid[at] < two_sided[at]), "hybrid is best up to three");
}

/// Checks `[HybridLock09]` figure 7.
#[test]
fn a_target_that_computes_keeps_two_sided_locks() {
    let figures = OF_2009.map(|design| {
        let times = [0, 10_000, 100_000, 1_000_000].map(|amount| {
            play(design, nodes(1, 2), |rank| match rank.rank {
                0 => {
                    rank.spend(1000);
                    rank.lock_unlock(lock(1), 1)
                }
                _ => {
                    rank.compute(amount);
                    0.0
                }
            })[0]
        });
        tell("7 target computes, µs", &format!("{design}: 0, 10, 100, 1000"), &micro(&times));
        times
    });
    let [two_sided, others @ ..] = figures;
    assert!(two_sided[3] > 1e6 - 2000.0);
    assert!(others.iter().all(|times| times[0] == times[3]));
}

/// Passes once round a ring of ranks that compute a millisecond each, and poll for their tag every
/// 20 µs. Only the second round counts: as in the paper, locks are in network mode by then.
fn ring(design: LockDesign, ranks: u32) -> f64 {
    let times = play(design, apart(ranks), |rank| {
        let laps = [1, 2].map(|lap| {
            rank.spend(lap * 100_000_000 - rank.now());
            go_round(rank, ranks, lap)
        });
        laps[1]
    });
    times[0]
}

fn go_round(rank: &Rank<'_>, ranks: u32, lap: u64) -> f64 {
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
        rank.spend(1000);
    }
}

/// Checks `[HybridLock09]` figure 10.
#[test]
fn in_a_ring_skew_adds_up_where_targets_are_asked() {
    let figures = OF_2009.map(|design| {
        let times = [2, 8, 16, 64].map(|ranks| ring(design, ranks));
        tell("10 ring, µs", &format!("{design}: 2, 8, 16, 64 ranks"), &micro(&times));
        times
    });
    let [two_sided, one_sided, hybrid] = figures;
    for at in 0..4 {
        assert!(one_sided[at] < two_sided[at] && hybrid[at] < two_sided[at]);
    }
    assert!(two_sided[1] > 1.5 * hybrid[1], "one after the other computes");
}

/// Of a hundred locks on the node, `percent` are each followed by one from another node. Returns
/// the times of a lock on the node and of one from the other node.
fn migration(percent: u64) -> [f64; 2] {
    const LOCKS: u64 = 100;
    let far_at =
        |number: u64| ((number + 1) * percent + 50) / LOCKS > (number * percent + 50) / LOCKS;
    // Each lock has its own slot of time.
    let slot = |number: u64| number * 400_000;
    let times = play(Hybrid, vec![0, 0, 1], |rank| {
        let mut times = Vec::new();
        for number in 0..LOCKS {
            let begin = match rank.rank {
                1 => slot(number),
                2 if far_at(number) => slot(number) + 200_000,
                _ => continue,
            };
            rank.spend(begin - rank.now());
            times.push(rank.lock_unlock(lock(0), 1));
        }
        times
    });
    [mean(&times[1]), mean(&times[2])]
}

/// Checks `[HybridLock09]` figure 11.
#[test]
fn few_migrations_cost_little() {
    let percents = [0, 1, 5, 10, 25, 50, 100];
    let figures = percents.map(|percent| {
        let times = migration(percent);
        tell("11 migration, µs", &format!("{percent} %: node, between"), &micro(&times));
        times
    });
    let on_node = figures.map(|[on_node, _]| on_node);
    assert!(on_node.is_sorted(), "each migration adds to the whole");
    assert!(on_node[1] < 0.05 * on_node[6]);
}

/// Leaders lock, put and unlock at each rank of their own node, at each other leader, and at their
/// own ranks again.
fn tasks(design: LockDesign, per_node: u32) -> f64 {
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

/// Checks `[HybridLock09]` figure 12.
#[test]
fn tasks_are_shared_fastest_by_the_hybrid_lock() {
    let figures = OF_2009.map(|design| {
        let times = [4, 8, 16].map(|per_node| tasks(design, per_node));
        tell("12 task sharing, µs", &format!("{design}: 16, 32, 64 ranks"), &micro(&times));
        times
    });
    let [two_sided, one_sided, hybrid] = figures;
    assert!((0..3).all(|at| hybrid[at] < two_sided[at] && two_sided[at] < one_sided[at]));
}
