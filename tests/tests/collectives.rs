//! Collective operations: concurrent barriers of many groups, reductions against sequential ones,
//! and members that die.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::time::Duration;
use std::sync::Arc;

use fastrand::Rng;
use strait::boot::SegmentConfig;
use strait::{CollectiveError, Error, FailureCause, Fault, Group, Number, Op, World};
use strait_core::layout::BARRIER_SLOTS;
use strait_core::shm::BarrierAlgorithm;
use strait_tests::{Ranks, die, report, threads};

const WAYS: [BarrierAlgorithm; 3] =
    [BarrierAlgorithm::Word, BarrierAlgorithm::Flags, BarrierAlgorithm::Signal];

/// Number of barriers that each rank has entered, visible to all ranks.
type Entered = Arc<Vec<AtomicU64>>;

fn no_rank_entered(ranks: u32) -> Entered {
    Arc::new((0..ranks).map(|_| AtomicU64::new(0)).collect())
}

/// Enters a barrier, and checks that no rank leaves it before all have entered.
fn checked(entered: &[AtomicU64], group: &Group<'_>, own: u32, barrier: impl FnOnce()) {
    let number = entered[own as usize].fetch_add(1, SeqCst) + 1;
    barrier();
    for &rank in group.ranks() {
        let theirs = entered[rank as usize].load(SeqCst);
        assert!(theirs >= number, "left barrier {number} when rank {rank} was at {theirs}");
        assert!(theirs <= number + 1, "rank {rank} is at {theirs}, past barrier {}", number + 1);
    }
}

#[test]
fn no_rank_leaves_before_all_have_entered() {
    for ranks in 2..=9 {
        let entered = no_rank_entered(4 * ranks);
        threads(SegmentConfig::new(ranks), move |world| {
            let all: Vec<_> = (0..ranks).collect();
            for (at, way) in WAYS.into_iter().map(Some).chain([None]).enumerate() {
                let group = world.endpoint().with_context(at as u32).group(&all).unwrap();
                let entered = &entered[at * ranks as usize..];
                if way.is_none() {
                    group.meet_by_messages();
                }
                for _ in 0..if ranks > 4 { 300 } else { 1000 } {
                    checked(entered, &group, world.rank(), || match way {
                        Some(way) => group.barrier_by(way).unwrap(),
                        None => group.barrier().unwrap(),
                    });
                }
            }
            world.finalize().unwrap();
        });
    }
}

#[test]
fn the_world_meets_in_each_context_by_itself() {
    let entered = no_rank_entered(3 * 4);
    threads(SegmentConfig::new(3), move |world| {
        let all = world.endpoint().group(&[0, 1, 2]).unwrap();
        for round in 0..2000 {
            let context = round % 4;
            let entered = &entered[3 * context..];
            let endpoint = world.endpoint().with_context(context as u32);
            checked(entered, &all, world.rank(), || endpoint.barrier().unwrap());
        }
        drop(all);
        world.finalize().unwrap();
    });
}

/// Draws the same groups on all ranks: random members in random places, each group in its own
/// context.
fn draw_groups(random: &mut Rng, ranks: u32, count: usize) -> Vec<Vec<u32>> {
    let draw = |random: &mut Rng| {
        let mut members: Vec<_> = (0..ranks).collect();
        random.shuffle(&mut members);
        members.truncate(random.usize(1..=ranks as usize));
        members
    };
    (0..count).map(|_| draw(random)).collect()
}

/// More groups than slots, so that some meet by messages. All are in flight at once, and groups are
/// created and dropped while others meet.
#[test]
fn random_groups_meet_in_a_random_order() {
    const RANKS: u32 = 5;
    const GROUPS: usize = BARRIER_SLOTS as usize + 18;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let entered = no_rank_entered(RANKS * GROUPS as u32 * 2);
    threads(SegmentConfig::new(RANKS), move |world| {
        let mut random = Rng::with_seed(seed);
        let mut payload = Rng::with_seed(seed ^ u64::from(world.rank()));
        for generation in 0..2 {
            let drawn = draw_groups(&mut random, RANKS, GROUPS);
            let mut groups: Vec<_> = (0..)
                .zip(&drawn)
                .map(|(context, members)| {
                    world.endpoint().with_context(context).group(members).ok()
                })
                .collect();
            for _ in 0..3000 {
                let which = random.usize(..GROUPS);
                let base = (generation * GROUPS + which) * RANKS as usize;
                let Some(group) = &groups[which] else { continue };
                for _ in 0..payload.u32(..3) {
                    std::thread::yield_now();
                }
                let entered = &entered[base..];
                checked(entered, group, world.rank(), || group.barrier().unwrap());
            }
            groups.reverse();
            drop(groups);
        }
        world.finalize().unwrap();
    });
}

#[test]
fn a_slot_that_was_given_back_serves_the_next_group() {
    threads(SegmentConfig::new(3), |world| {
        // Each group would leave no slot for a later group if its own were not returned.
        for round in 0..4 * BARRIER_SLOTS {
            let members = [[0, 1, 2], [2, 0, 1]][round as usize % 2];
            let group = world.endpoint().with_context(round).group(&members).unwrap();
            for _ in 0..5 {
                group.barrier_by(WAYS[round as usize % 3]).unwrap();
            }
            assert!(format!("{group:?}").contains("Slot"), "round {round} got no slot");
        }
        world.finalize().unwrap();
    });
}

/// A long message must move while its sender only waits in a barrier.
#[test]
fn a_waiting_rank_makes_progress() {
    threads(SegmentConfig::new(2), |world| {
        let endpoint = world.endpoint();
        endpoint.barrier().unwrap();
        let mut data = vec![7_u8; 8 << 20];
        if world.rank() == 0 {
            endpoint.scope(|scope| {
                let send = scope.isend(&data, 1, 0).unwrap();
                endpoint.barrier().unwrap();
                send.wait().unwrap();
            });
        } else {
            data.fill(0);
            endpoint.recv(&mut data, 0, 0).unwrap();
            assert!(data.iter().all(|byte| *byte == 7));
            endpoint.barrier().unwrap();
        }
        world.finalize().unwrap();
    });
}

/// Number types with random values that every rank can compute for all ranks.
trait Drawn: Number + PartialEq + core::fmt::Debug {
    const OPS: &'static [Op];
    fn draw(random: &mut Rng) -> Self;
    fn fold(op: Op, left: Self, right: Self) -> Self;
}

macro_rules! drawn_integers {
    ($($number:ident)*) => {$(
        impl Drawn for $number {
            const OPS: &'static [Op] =
                &[Op::Sum, Op::Prod, Op::Min, Op::Max, Op::BitAnd, Op::BitOr, Op::BitXor];

            fn draw(random: &mut Rng) -> Self {
                random.$number(..)
            }

            fn fold(op: Op, left: Self, right: Self) -> Self {
                match op {
                    Op::Sum => left.wrapping_add(right),
                    Op::Prod => left.wrapping_mul(right),
                    Op::Min => if right < left { right } else { left },
                    Op::Max => if right > left { right } else { left },
                    Op::BitAnd => left & right,
                    Op::BitOr => left | right,
                    Op::BitXor => left ^ right,
                    other => panic!("{other:?} is new: test it"),
                }
            }
        }
    )*};
}
drawn_integers!(i32 i64 u32 u64);

macro_rules! drawn_floats {
    ($($number:ident)*) => {$(
        impl Drawn for $number {
            const OPS: &'static [Op] = &[Op::Sum, Op::Prod, Op::Min, Op::Max];

            fn draw(random: &mut Rng) -> Self {
                // The magnitudes differ so much that the order of a sum is visible.
                (random.$number() - 0.5) * Self::powi(10.0, random.i32(-12..12))
            }

            fn fold(op: Op, left: Self, right: Self) -> Self {
                match op {
                    Op::Sum => left + right,
                    Op::Prod => left * right,
                    Op::Min => if right < left { right } else { left },
                    Op::Max => if right > left { right } else { left },
                    other => panic!("{other:?} is not for floats"),
                }
            }
        }
    )*};
}
drawn_floats!(f32 f64);

/// Reduces in the documented order: neighbours first, then pairs of neighbours, and so on, with
/// lower places on the left.
fn in_order<T: Drawn>(op: Op, of: &[Vec<T>], at: usize) -> T {
    match of {
        [one] => one[at],
        _ => {
            let half = of.len().next_power_of_two() / 2;
            T::fold(op, in_order(op, &of[..half], at), in_order(op, &of[half..], at))
        }
    }
}

fn reductions_agree<T: Drawn>(world: &World, random: &mut Rng) {
    let ranks = world.size();
    for &op in T::OPS {
        for length in [0, 1, 5, 200, 20_000] {
            let members = {
                let mut members: Vec<_> = (0..ranks).collect();
                random.shuffle(&mut members);
                members
            };
            let data: Vec<Vec<T>> =
                (0..ranks).map(|_| (0..length).map(|_| T::draw(random)).collect()).collect();
            let expected: Vec<T> = (0..length).map(|at| in_order(op, &data, at)).collect();
            let root = random.u32(..ranks);
            let group = world.endpoint().with_context(9).group(&members).unwrap();
            let mut mine = data[group.place() as usize].clone();
            group.reduce(&mut mine, op, root).unwrap();
            if group.place() == root {
                assert_eq!(mine, expected, "reduce, {op:?}");
            }
            let mut mine = data[group.place() as usize].clone();
            group.allreduce(&mut mine, op).unwrap();
            assert_eq!(mine, expected, "allreduce, {op:?}");
            let mut mine = data[world.rank() as usize].clone();
            world.endpoint().allreduce(&mut mine, op).unwrap();
            assert_eq!(mine, expected, "allreduce of the world, {op:?}");
            let mut mine = data[group.place() as usize].clone();
            group.broadcast(&mut mine, root).unwrap();
            assert_eq!(mine, data[root as usize], "broadcast");
        }
    }
}

#[test]
fn collectives_give_what_one_process_would() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    for ranks in 1..=7 {
        threads(SegmentConfig::new(ranks), move |world| {
            let mut random = Rng::with_seed(seed);
            reductions_agree::<i32>(&world, &mut random);
            reductions_agree::<i64>(&world, &mut random);
            reductions_agree::<u32>(&world, &mut random);
            reductions_agree::<u64>(&world, &mut random);
            reductions_agree::<f32>(&world, &mut random);
            reductions_agree::<f64>(&world, &mut random);
            world.finalize().unwrap();
        });
    }
}

/// The lists have the same hash. Their common members detect this before their messages mix.
#[test]
fn groups_that_would_mix_are_refused() {
    const FIRST: [u32; 8] = [0, 8, 6, 7, 3, 5, 4, 2];
    const SECOND: [u32; 8] = [0, 1, 6, 2, 4, 8, 7, 3];
    threads(SegmentConfig::new(9), |world| {
        let (me, endpoint) = (world.rank(), world.endpoint());
        let first = FIRST.contains(&me).then(|| endpoint.group(&FIRST).unwrap());
        if SECOND.contains(&me) {
            let second = endpoint.group(&SECOND);
            let is_refused = matches!(second, Err(CollectiveError::SameTag { context: 0, .. }));
            assert_eq!(is_refused, first.is_some());
            let second = endpoint.with_context(1).group(&SECOND).unwrap();
            second.barrier().unwrap();
        }
        first.into_iter().for_each(|first| first.barrier().unwrap());
        world.finalize().unwrap();
    });
}

#[test]
fn wrong_arguments_are_named() {
    threads(SegmentConfig::new(2), |world| {
        let endpoint = world.endpoint();
        let (own, other) = (world.rank(), 1 - world.rank());
        let refused = |ranks: &[u32]| endpoint.group(ranks).unwrap_err();
        assert_eq!(refused(&[0, 1, 2]), CollectiveError::NoSuchRank { rank: 2, ranks: 2 });
        assert_eq!(refused(&[own, other, own]), CollectiveError::Twice { rank: own });
        assert_eq!(refused(&[other]), CollectiveError::NotAMember { rank: own });
        assert_eq!(refused(&[]), CollectiveError::NotAMember { rank: own });
        let root = endpoint.broadcast(&mut [0_u8], 2).unwrap_err();
        let expected = CollectiveError::Root { root: 2, members: 2 };
        assert!(matches!(root, Error::Collective(found) if found == expected), "{root}");
        let bits = endpoint.allreduce(&mut [1.0_f32], Op::BitAnd).unwrap_err();
        assert!(bits.to_string().contains("f32"), "{bits}");
        // The buffer has 3 elements at rank 0 and 4 at rank 1.
        let mut data = vec![1_i32; 3 + own as usize];
        let length = endpoint.allreduce(&mut data, Op::Sum).unwrap_err();
        let (found, expected) = (4 * (3 + other as usize), 4 * (3 + own as usize));
        let expected = CollectiveError::Length { rank: other, found, expected };
        assert!(matches!(length, Error::Collective(found) if found == expected), "{length}");
        endpoint.barrier().unwrap();
        world.finalize().unwrap();
    });
}

#[test]
fn processes_meet() {
    Ranks::new(8, "processes_meet").run(|world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        let half: Vec<_> = (0..8).filter(|other| other % 2 == rank % 2).collect();
        let group = endpoint.group(&half).unwrap();
        for round in 0..300 {
            endpoint.barrier().unwrap();
            group.barrier().unwrap();
            let mut sum = [u64::from(rank) + round];
            endpoint.allreduce(&mut sum, Op::Sum).unwrap();
            assert_eq!(sum, [28 + 8 * round]);
        }
        drop(group);
        world.finalize().unwrap();
    });
}

/// Survivors repeat the operation until they learn of the death, whatever it is.
fn survive(name: &'static str, ranks: u32, again: impl Fn(&Group<'_>, u64) -> Result<(), Error>) {
    let deaths = [ranks - 1];
    Ranks::new(ranks, name).with_deaths(&deaths).within(Duration::from_secs(30)).run(|world| {
        let all: Vec<_> = (0..ranks).collect();
        let group = world.endpoint().group(&all).unwrap();
        for round in 0.. {
            if world.rank() == ranks - 1 && round == 50 {
                report("dying");
                die();
            }
            let Err(error) = again(&group, round) else { continue };
            report(&error);
            // The dead rank completed round 49, but a member that still waits for its part may
            // learn of the death first and give up: it is open which members complete an operation
            // when one of them dies.
            assert!(round >= 49, "round {round}: {error}");
            let expected = Fault::PeerFailed { rank: ranks - 1, sign: FailureCause::Ended };
            assert!(matches!(error, Error::Fault(fault) if fault == expected), "{error:?}");
            break;
        }
        // Later calls report the same error.
        assert_eq!(again(&group, 0).unwrap_err().gone_peer(), Some(ranks - 1));
        drop(group);
        world.finalize().unwrap();
    });
}

/// The dead rank was a member of a group in every slot, and led half of them. The survivors' next
/// groups get slots.
#[test]
fn the_slots_of_the_dead_serve_the_next_groups() {
    const VICTIM: u32 = 0;
    let job = Ranks::new(4, "the_slots_of_the_dead_serve_the_next_groups");
    job.with_deaths(&[VICTIM]).within(Duration::from_secs(30)).run(|world| {
        let make = |context: u32, members: &[u32]| {
            let group = world.endpoint().with_context(context).group(members).unwrap();
            group.barrier().map(|()| group)
        };
        let has_slot = |group: &Group<'_>| format!("{group:?}").contains("Slot");
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0]];
        let groups: Vec<_> =
            (0..BARRIER_SLOTS).map(|n| make(n, &orders[n as usize % 2]).unwrap()).collect();
        assert!(groups.iter().all(has_slot));
        assert!(!has_slot(&make(90, &orders[0]).unwrap()), "all slots are taken");
        if world.rank() == VICTIM {
            die();
        }
        assert_eq!(groups[0].barrier().unwrap_err().gone_peer(), Some(VICTIM));
        assert!(!has_slot(&make(91, &[1, 2, 3]).unwrap()), "the survivors have their seats");
        drop(groups);
        // All members have dropped the earlier groups.
        drop(make(92, &[1, 2, 3]).unwrap());
        let next: Vec<_> = (0..BARRIER_SLOTS).map(|n| make(100 + n, &[1, 2, 3]).unwrap()).collect();
        assert!(next.iter().all(has_slot), "a slot is lost");
        drop(next);
        world.finalize().unwrap();
    });
}

#[test]
fn a_death_ends_a_barrier_of_two() {
    survive("a_death_ends_a_barrier_of_two", 2, |group, _| group.barrier());
}

#[test]
fn a_death_ends_a_barrier_of_five() {
    survive("a_death_ends_a_barrier_of_five", 5, |group, _| group.barrier());
}

#[test]
fn a_death_ends_a_barrier_by_flags() {
    survive("a_death_ends_a_barrier_by_flags", 4, |group, _| {
        group.barrier_by(BarrierAlgorithm::Flags)
    });
}

#[test]
fn a_death_ends_a_barrier_by_messages() {
    survive("a_death_ends_a_barrier_by_messages", 5, |group, round| {
        if round == 0 {
            group.meet_by_messages();
        }
        group.barrier()
    });
}

#[test]
fn a_death_ends_a_reduction() {
    survive("a_death_ends_a_reduction", 6, |group, _| group.allreduce(&mut [1_u64; 2000], Op::Sum));
}

/// A rank that knows of a death says nothing in the group's first barrier. The others would take it
/// for its part in a later barrier, and the answer to it would end that one too early.
#[test]
fn nothing_is_sent_for_a_first_barrier_that_a_death_has_ended() {
    let name = "nothing_is_sent_for_a_first_barrier_that_a_death_has_ended";
    Ranks::new(3, name).with_deaths(&[2]).run(|world| {
        let endpoint = world.endpoint();
        match world.rank() {
            2 => die(),
            1 => {
                assert_eq!(endpoint.recv(&mut [0_u8], 2, 0).unwrap_err().gone_peer(), Some(2));
                let group = endpoint.group(&[0, 1, 2]).unwrap();
                for _ in 0..3 {
                    assert_eq!(group.barrier().unwrap_err().gone_peer(), Some(2));
                }
                endpoint.send(&[1_u8], 0, 0).unwrap();
            }
            _ => {
                endpoint.recv(&mut [0_u8], 1, 0).unwrap();
                assert_eq!(world.held().bytes, 0, "messages came before this one");
            }
        }
        world.finalize().unwrap();
    });
}

/// A survivor that gives up twice does not count for the dead rank, or for a rank that has not
/// arrived yet.
#[test]
fn a_member_that_gives_up_is_not_counted_twice() {
    let job = Ranks::new(4, "a_member_that_gives_up_is_not_counted_twice").with_deaths(&[1]);
    job.run(|world| {
        let endpoint = world.endpoint();
        endpoint.barrier().unwrap();
        endpoint.barrier().unwrap();
        match world.rank() {
            1 => die(),
            2 => {
                for _ in 0..5 {
                    assert_eq!(endpoint.barrier().unwrap_err().gone_peer(), Some(1));
                }
                endpoint.send(&[1_u8], 0, 0).unwrap();
            }
            0 => {
                endpoint.recv(&mut [0_u8], 2, 0).unwrap();
                assert_eq!(endpoint.barrier().unwrap_err().gone_peer(), Some(1));
                endpoint.send(&[1_u8], 3, 0).unwrap();
            }
            _ => {
                endpoint.recv(&mut [0_u8], 0, 0).unwrap();
                assert_eq!(endpoint.barrier().unwrap_err().gone_peer(), Some(1));
            }
        }
        world.finalize().unwrap();
    });
}
