//! A kernel that lets one process reach into another, or does not, or changes its mind.

use super::*;
use crate::{Transfer, Tuning, World};

const LENGTH: usize = 700_017;

/// More than any of these messages takes.
const LOOKS: u32 = 10_000;

fn payload(seed: usize) -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

/// Two ranks whose large messages go by one copy as long as they can.
fn pair() -> Vec<World> {
    let worlds = World::in_process(2).unwrap();
    for world in &worlds {
        world.retune(Tuning { transfer: Transfer::CmaShared, ..world.tuning() });
    }
    worlds
}

/// Rank 0 sends to rank 1, the two moved in turn by one thread.
fn exchange(worlds: &[World], seed: usize, receiver_first: bool) {
    let (bytes, mut arrived) = (payload(seed), vec![0; LENGTH]);
    worlds[0].endpoint().scope(|sends| {
        let mut send = sends.isend(&bytes, 1, 0).unwrap();
        worlds[1].endpoint().scope(|receives| {
            let mut receive = receives.irecv(&mut arrived, 0, 0).unwrap();
            if receiver_first {
                worlds[1].progress().unwrap();
            }
            let mut looks = 0;
            while receive.test().unwrap().is_none() | send.test().unwrap().is_none() {
                looks += 1;
                assert!(looks < LOOKS, "it hangs");
            }
        });
    });
    assert_eq!(arrived, bytes);
}

/// Two ranks of which each is refused after so many jobs.
fn refused_after(reads: Option<u32>, writes: Option<u32>) {
    let worlds = pair();
    worlds[1].turn().cma().refuse_after = reads;
    worlds[0].turn().cma().refuse_after = writes;
    for seed in 0..3 {
        exchange(&worlds, seed, seed != 1);
    }
}

#[test]
fn a_message_arrives_whole_whoever_is_refused_and_when() {
    let moments = [None, Some(0), Some(1), Some(2), Some(5)];
    for reads in moments {
        for writes in moments {
            refused_after(reads, writes);
        }
    }
}

#[test]
fn after_a_refusal_later_messages_do_not_try_again() {
    let worlds = pair();
    for world in &worlds {
        world.turn().cma().refuse_after = Some(0);
    }
    exchange(&worlds, 0, true);
    for world in &worlds {
        assert_eq!(world.turn().cma().refuse_after, Some(0));
        // What would be moved now.
        world.turn().cma().refuse_after = Some(1_000_000);
    }
    exchange(&worlds, 1, true);
    for world in &worlds {
        assert_eq!(world.turn().cma().refuse_after, Some(1_000_000), "it tried again");
    }
}

#[test]
fn a_dropped_send_arrives_although_everything_is_refused() {
    let worlds = pair();
    for world in &worlds {
        world.turn().cma().refuse_after = Some(1);
    }
    let (mut bytes, mut arrived) = (payload(1), vec![0; LENGTH]);
    worlds[1].endpoint().scope(|receives| {
        let mut receive = receives.irecv(&mut arrived, 0, 0).unwrap();
        worlds[0].endpoint().scope(|sends| {
            let send = sends.isend(&bytes, 1, 0).unwrap();
            worlds[1].progress().unwrap();
            worlds[0].progress().unwrap();
            drop(send);
        });
        bytes.fill(0);
        while receive.test().unwrap().is_none() {
            worlds[0].progress().unwrap();
        }
    });
    assert_eq!(arrived, payload(1));
}

#[test]
fn the_witness_of_another_rank_is_not_believed() {
    let worlds = pair();
    let segment = worlds[0].segment();
    let [ours, theirs] = [0, 1].map(|rank| &segment.rank_block(rank).liveness);
    assert!(find(theirs, 1).is_some());
    // As where process namespaces differ: the number leads to a process, but not to that rank.
    theirs.set_witness(ours.witness());
    assert_eq!(find(theirs, 1), None);
    theirs.set_witness(8);
    assert_eq!(find(theirs, 1), None);
    exchange(&worlds, 0, true);
}
