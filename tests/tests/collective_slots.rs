//! Slots of groups: the search for one again, and the vectors that groups of two exchange there.

use core::time::Duration;

use strait::boot::SegmentConfig;
use strait::{CollectiveError, Error, FailureCause, Fault, Group, Op};
use strait_core::layout::BARRIER_SLOTS;
use strait_tests::{Ranks, die, report, threads};

fn has_slot(group: &Group<'_>) -> bool {
    format!("{group:?}").contains("Slot")
}

#[test]
fn a_group_without_a_slot_finds_one_later() {
    threads(SegmentConfig::new(3), |world| {
        let make = |context| world.endpoint().with_context(context).everyone();
        let all: Vec<_> = (0..BARRIER_SLOTS).map(make).collect();
        all.iter().for_each(|group| group.barrier().unwrap());
        let late = make(BARRIER_SLOTS);
        for _ in 0..40 {
            late.barrier().unwrap();
            assert!(!has_slot(&late), "all slots are taken");
        }
        drop(all);
        // All members have left the slots before one of them looks again.
        world.endpoint().with_context(99).group(&[0, 1, 2]).unwrap().barrier().unwrap();
        (0..40).for_each(|_| late.barrier().unwrap());
        assert!(has_slot(&late), "the group has looked again");
        drop(late);
        world.finalize().unwrap();
    });
}

#[test]
fn two_members_exchange_vectors_of_every_short_length() {
    threads(SegmentConfig::new(2), |world| {
        let group = world.endpoint().everyone();
        let (own, other) = (world.rank() as u8, 1 - world.rank() as u8);
        for round in 0..300_usize {
            let length = round % 40;
            let mut data = vec![own + 1; length];
            group.allreduce(&mut data, |left: u8, right: u8| 10 * left + right).unwrap();
            assert_eq!(data, vec![12; length]);
            if round % 7 == 0 {
                group.barrier().unwrap();
            }
            let mut data = [u64::from(own) + round as u64; 3];
            world.endpoint().allreduce(&mut data, Op::Sum).unwrap();
            assert_eq!(data, [2 * round as u64 + 1; 3]);
        }
        assert!(has_slot(&group));
        // Each learns the length of the other's vector.
        let mut data = vec![0_u8; 3 + own as usize];
        let error = group.allreduce(&mut data, Op::Sum).unwrap_err();
        let (found, expected) = (3 + other as usize, 3 + own as usize);
        let expected = CollectiveError::Length { rank: other.into(), found, expected };
        assert!(matches!(error, Error::Collective(found) if found == expected), "{error}");
        group.barrier().unwrap();
        drop(group);
        world.finalize().unwrap();
    });
}

/// The members below one that finds another length in a broadcast must not wait for its vector.
#[test]
fn a_broadcast_of_another_length_ends_at_all_members() {
    threads(SegmentConfig::new(7), |world| {
        let endpoint = world.endpoint();
        for (at_root, elsewhere) in [(1, 5), (5, 1), (0, 1), (1, 0)] {
            let is_root = world.rank() == 2;
            let mut data = vec![7_u64; if is_root { at_root } else { elsewhere }];
            match endpoint.broadcast(&mut data, 2) {
                Ok(()) => assert!(is_root),
                Err(Error::Collective(CollectiveError::Length { .. })) => assert!(!is_root),
                Err(error) => panic!("{error}"),
            }
        }
        let mut data = [u64::from(world.rank()); 2];
        endpoint.broadcast(&mut data, 6).unwrap();
        assert_eq!(data, [6; 2]);
        world.finalize().unwrap();
    });
}

/// An operation may be called by the function of another one.
#[test]
fn a_function_may_use_the_group() {
    threads(SegmentConfig::new(2), |world| {
        let group = world.endpoint().everyone();
        let mut sum = [1_u32];
        let add = |left: u32, right: u32| {
            group.barrier().unwrap();
            left + right
        };
        group.allreduce(&mut sum, add).unwrap();
        assert_eq!(sum, [2]);
        drop(group);
        world.finalize().unwrap();
    });
}

#[test]
fn a_death_ends_an_exchange() {
    const VICTIM: u32 = 1;
    let job = Ranks::new(2, "a_death_ends_an_exchange").with_deaths(&[VICTIM]);
    job.within(Duration::from_secs(30)).run(|world| {
        let group = world.endpoint().everyone();
        for round in 0.. {
            if world.rank() == VICTIM && round == 50 {
                report("dying");
                die();
            }
            let Err(error) = group.allreduce(&mut [1_u64], Op::Sum) else { continue };
            assert!(round >= 49, "round {round}: {error}");
            let expected = Fault::PeerFailed { rank: VICTIM, sign: FailureCause::Ended };
            assert!(matches!(error, Error::Fault(fault) if fault == expected), "{error:?}");
            break;
        }
        for _ in 0..3 {
            let error = group.allreduce(&mut [1_u64], Op::Sum).unwrap_err();
            assert_eq!(error.gone_peer(), Some(VICTIM));
            assert_eq!(group.barrier().unwrap_err().gone_peer(), Some(VICTIM));
        }
        drop(group);
        world.finalize().unwrap();
    });
}
