//! The lock designs measured as in the figures of `[OneSided04]` §4.4 and `[HybridLock09]` §5, in
//! virtual time, with as many nodes and processors as in the papers.
//!
//! Nothing here depends on the machine: a run is the same everywhere, to the nanosecond. With
//! `--nocapture` it prints the figures that `docs/window-locks-measured.md` quotes. The tests
//! assert the papers' orders where they are reproduced. Where they are not, that page explains why.

use strait::{LockCosts, LockDesign, LockMode, LockPolicy};
use strait_sim::locks::{
    Costs, Visits, apart, beside_threads, complexity, contention, crowd, delay, migration,
    migration_among, neighbours, nodes, overhead, pairs_on_nodes, ring, target_computes, tasks,
    visits, windows,
};

use LockDesign::{Event, Hybrid, Mcs, TestAndSet, Thread, ThreadPerWindow, TwoSided};

/// The designs of `[OneSided04]`.
const OF_2004: [LockDesign; 4] = [Thread, Event, TestAndSet, Mcs];

/// The designs of `[HybridLock09]`, which calls test-and-set by the device one-sided.
const OF_2009: [LockDesign; 3] = [TwoSided, TestAndSet, Hybrid];

const NO_BACKOFF: Costs = Costs::WITHOUT_BACKOFF;
const SHORT_BACKOFF: Costs = Costs::WITH_SHORT_BACKOFF;

/// Converts nanoseconds to microseconds.
fn micro(times: &[f64]) -> Vec<f64> {
    times.iter().map(|time| time / 1e3).collect()
}

fn tell(figure: &str, what: &str, values: &[f64]) {
    let values: Vec<String> = values.iter().map(|value| format!("{value:>9.2}")).collect();
    println!("{figure:<22} {what:<28} {}", values.join(" "));
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
    let each = (1..8).map(|origins| windows(ThreadPerWindow, origins)).collect::<Vec<_>>();
    tell("4.6 concurrency, µs", "thread_per_window: 1 to 7 origins", &micro(&each));
    let no_faster = |(one, each): (&f64, &f64)| one <= each && *each < 1.2 * one;
    assert!(thread.iter().zip(&each).all(no_faster), "they share one engine");
    assert!(event[6] > 1.5 * event[3], "with so many requests it does not fall asleep");
    assert!([swap, mcs].iter().all(|times| times[6] < 1.1 * times[0]));
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

/// Checks `[OneSided04]` figure 4.8.
#[test]
fn computing_threads_disturb_a_polling_thread_alone() {
    let figures = OF_2004.map(|design| {
        let times = [0, 1, 2, 3, 4].map(|threads| beside_threads(design, threads));
        tell("4.8 computing, µs", &format!("{design}: 0 to 4"), &micro(&times));
        times
    });
    let [thread, others @ ..] = figures;
    for times in others {
        assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
    }
    // Two processors are enough for the polling thread and a thread that computes.
    assert_eq!(thread[0], thread[1]);
    // Beyond, the polling thread has its share of their time.
    for (threads, share) in [(2, 1.5), (3, 2.0), (4, 2.5)] {
        let grown = thread[threads] / thread[0];
        assert!((0.9 * share..1.1 * share).contains(&grown), "{threads}: {grown}");
    }
}

/// Checks `[OneSided04]` figure 4.9.
#[test]
fn a_polling_thread_for_each_process_takes_processors_from_the_processes() {
    let figures = OF_2004.map(|design| {
        let times = [1, 2].map(|pairs| pairs_on_nodes(design, pairs));
        tell("4.9 pairs, µs", &format!("{design}: one, two"), &micro(&times));
        times[1] / times[0]
    });
    let [thread, _, swap, mcs] = figures;
    assert!(swap < 1.1 && mcs < 1.1 && thread > 1.3, "{figures:?}");
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
        let times = [0, 10_000, 100_000, 1_000_000].map(|amount| target_computes(design, amount));
        tell("7 target computes, µs", &format!("{design}: 0, 10, 100, 1000"), &micro(&times));
        times
    });
    let [two_sided, others @ ..] = figures;
    assert!(two_sided[3] > 1e6 - 2000.0);
    assert!(others.iter().all(|times| times[0] == times[3]));
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

/// Compares the policies by which hybrid locks migrate (`[HybridLock09]` §4.2).
#[test]
fn each_policy_suits_some_visits_and_measured_cost_suits_all() {
    // The costs of this model, in nanoseconds: a lock of another node at the network word, by the
    // manager in CPU mode, and with a migration.
    let costs = LockCosts { suiting: 12_900, other: 26_600, migration: 38_500 };
    let policies = [
        LockPolicy::Follow,
        LockPolicy::Hysteresis(4),
        LockPolicy::History { least: 2, of: 4 },
        LockPolicy::Cost(costs),
        LockPolicy::Pinned(LockMode::Cpu),
        LockPolicy::Pinned(LockMode::Network),
    ];
    // Of 200 visits every 20th comes from another node, every second, or 25 in turn with 25.
    let kinds = [Visits::Rare, Visits::Alternating, Visits::Phases];
    let figures = policies.map(|policy| {
        let times = kinds.map(|kind| visits(policy, kind));
        tell("policies, µs", &policy.to_string(), &micro(&times));
        times
    });
    let [follow, hysteresis, history, cost, cpu, network] = figures;
    let [rare, alternating, phases] = [0, 1, 2];
    assert!(figures.iter().all(|times| cpu[rare] <= times[rare]), "a migration is wasted there");
    for patient in [hysteresis, history, cost] {
        assert!(patient[rare] < follow[rare] && patient[alternating] < follow[alternating]);
        assert!(follow[phases] < patient[phases], "each phase begins with requests in vain");
        assert!(patient[phases] < cpu[phases].min(network[phases]), "a lock follows the phases");
    }
    for kind in [rare, alternating, phases] {
        let best = figures.iter().map(|times| times[kind]).fold(f64::MAX, f64::min);
        assert!(cost[kind] < 2.0 * best, "what is lost is at most what a migration costs");
    }
}

#[test]
fn a_migration_costs_the_same_among_a_thousand_members() {
    let [few, many] = [3, 1024].map(|members| migration_among(members, 100));
    assert_eq!(few, many, "the words are two, whatever the members");
}

#[test]
fn a_thousand_members_that_want_one_lock_get_it() {
    let [two_sided, swap, hybrid] = OF_2009.map(|design| {
        let figures = crowd(Costs::OF_2004, design, (1024, 16));
        tell("crowd of 1,024, ns", &format!("{design}: time, messages"), &figures);
        figures
    });
    assert!(hybrid[0] < 1.5 * two_sided[0] && hybrid[0] < swap[0]);
    assert!(hybrid[1] < swap[1]);
}
