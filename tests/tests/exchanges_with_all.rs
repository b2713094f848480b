//! Operations in which each member has messages with all others under way at once.

use core::time::Duration;

use fastrand::Rng;
use strait::boot::SegmentConfig;
use strait::{CollectiveError, Error};
use strait_tests::collectives::{Kind, Operation};
use strait_tests::{Ranks, die, report, threads};

/// More members than messages that are under way at once: short ones, which are all sent first, and
/// long ones, which need posted receives.
#[test]
fn many_members() {
    const RANKS: u32 = 20;
    let config = SegmentConfig { cells_per_rank: 8, parcels: 0, ..SegmentConfig::new(RANKS) };
    threads(config, |world| {
        let group = world.endpoint().everyone();
        let mut random = Rng::with_seed(800);
        let kinds = [
            Kind::Gather,
            Kind::Scatter,
            Kind::Allgather,
            Kind::Alltoall,
            Kind::Alltoallv,
            Kind::ReduceScatterBlock,
        ];
        for kind in kinds {
            for length in [1, 5_000] {
                let drawn = Operation::draw(&mut random, RANKS, 20_000);
                Operation { kind, length, ..drawn }.perform(&group).unwrap();
            }
        }
        drop(group);
        world.finalize().unwrap();
    });
}

/// The operation that finds a wrong length ends all others with it, so that the buffers are free.
#[test]
fn a_wrong_length_is_named() {
    const RANKS: usize = 4;
    for length in [100, 100_000] {
        threads(SegmentConfig::new(RANKS as u32), move |world| {
            let group = world.endpoint().everyone();
            let block = |at: usize| at * length..(at + 1) * length;
            let (mut from, to): (Vec<_>, Vec<_>) =
                (0..RANKS).map(|at| (block(at), block(at))).unzip();
            let is_wrong = world.rank() == 2;
            if is_wrong {
                // One element more than the others expect.
                (0..RANKS).filter(|at| *at != 2).for_each(|at| from[at].end += 1);
            }
            let (out, mut into) = (vec![7_u16; RANKS * length + 1], vec![0_u16; RANKS * length]);
            let outcome = group.alltoallv(&out, &from, &mut into, &to);
            if is_wrong {
                outcome.unwrap();
            } else {
                let error = outcome.unwrap_err();
                let (found, expected) = (2 * (length + 1), 2 * length);
                let named = CollectiveError::Length { rank: 2, found, expected };
                assert!(matches!(error, Error::Collective(found) if found == named), "{error}");
            }
            drop(group);
            world.finalize().unwrap();
        });
    }
}

/// Each member has receives and sends under way with all others when one dies.
#[test]
fn one_dies() {
    const RANKS: u32 = 5;
    let job = Ranks::new(RANKS, "one_dies").with_deaths(&[RANKS - 1]);
    job.within(Duration::from_secs(30)).run(|world| {
        let group = world.endpoint().everyone();
        let out = vec![world.rank(); RANKS as usize * 12_000];
        let mut into = out.clone();
        let mut round = 0;
        let error = loop {
            if world.rank() == RANKS - 1 && round == 20 {
                report("dying");
                die();
            }
            match group.alltoall(&out, &mut into) {
                Ok(()) => round += 1,
                Err(error) => break error,
            }
        };
        assert!(round >= 19, "{error} in round {round}");
        assert_eq!(error.gone_peer(), Some(RANKS - 1), "{error}");
        drop(group);
        world.finalize().unwrap();
    });
}
