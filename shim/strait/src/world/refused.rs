//! Tests with a kernel that permits cross-memory attach, refuses it, or begins to refuse it.

use strait_platform::cma::find;

use crate::{Transfer, Tuning, World};

const LENGTH: usize = 700_017;

/// More polls than any of these messages takes.
const LOOKS: u32 = 10_000;

fn payload(seed: usize) -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

/// Creates two ranks that move large messages with one copy as long as they can. By
/// [`Transfer::Auto`] they have no memory for the ring at first.
fn pair(transfer: Transfer) -> Vec<World> {
    let worlds = World::in_process(2).unwrap();
    for world in &worlds {
        world.retune(Tuning { transfer, ..world.tuning() });
    }
    worlds
}

const BOTH: [Transfer; 2] = [Transfer::CmaShared, Transfer::Auto];

/// Sends from rank 0 to rank 1. One thread drives both ranks in turn.
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
                assert!(looks < LOOKS, "the transfer hangs");
            }
        });
    });
    assert_eq!(arrived, bytes);
}

/// Runs two ranks, each of which the kernel refuses after so many copy jobs.
fn refused_after(transfer: Transfer, reads: Option<u32>, writes: Option<u32>) {
    let worlds = pair(transfer);
    worlds[1].lock_progress().cma().refuse_after = reads;
    worlds[0].lock_progress().cma().refuse_after = writes;
    for seed in 0..3 {
        exchange(&worlds, seed, seed != 1);
    }
}

#[test]
fn a_message_arrives_whole_whichever_side_is_refused() {
    let moments = [None, Some(0), Some(1), Some(2), Some(5)];
    for transfer in BOTH {
        for reads in moments {
            for writes in moments {
                refused_after(transfer, reads, writes);
            }
        }
    }
}

#[test]
fn after_a_refusal_later_messages_do_not_try_again() {
    let worlds = pair(Transfer::CmaShared);
    for world in &worlds {
        world.lock_progress().cma().refuse_after = Some(0);
    }
    exchange(&worlds, 0, true);
    for world in &worlds {
        assert_eq!(world.lock_progress().cma().refuse_after, Some(0));
        // A limit that a further copy job would lower.
        world.lock_progress().cma().refuse_after = Some(1_000_000);
    }
    exchange(&worlds, 1, true);
    for world in &worlds {
        assert_eq!(
            world.lock_progress().cma().refuse_after,
            Some(1_000_000),
            "a refused copy was tried again"
        );
    }
}

#[test]
fn a_dropped_send_arrives_although_everything_is_refused() {
    BOTH.into_iter().for_each(drop_a_refused_send);
}

fn drop_a_refused_send(transfer: Transfer) {
    let worlds = pair(transfer);
    for world in &worlds {
        world.lock_progress().cma().refuse_after = Some(1);
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
    let worlds = pair(Transfer::CmaShared);
    let segment = worlds[0].segment();
    let [ours, theirs] = [0, 1].map(|rank| &segment.rank_block(rank).liveness);
    assert!(find(theirs, 1).is_some());
    // This also occurs between process namespaces: the number leads to a process, but not to that
    // rank.
    theirs.set_witness(ours.witness());
    assert_eq!(find(theirs, 1), None);
    theirs.set_witness(8);
    assert_eq!(find(theirs, 1), None);
    exchange(&worlds, 0, true);
}

#[test]
fn a_message_to_a_rank_that_is_not_there_yet_says_nothing_about_the_kernel() {
    let worlds = pair(Transfer::Auto);
    let segment = worlds[0].segment();
    let theirs = &segment.rank_block(1).liveness;
    let witness = theirs.witness();
    theirs.set_witness(0);
    let bytes = payload(1);
    worlds[0].endpoint().scope(|sends| {
        let mut send = sends.isend(&bytes, 1, 0).unwrap();
        theirs.set_witness(witness);
        assert!(worlds[0].lock_progress().cma().reaches(&segment, 1));
        let mut arrived = vec![0; LENGTH];
        worlds[1].endpoint().scope(|receives| {
            let mut receive = receives.irecv(&mut arrived, 0, 0).unwrap();
            while receive.test().unwrap().is_none() | send.test().unwrap().is_none() {}
        });
        assert_eq!(arrived, bytes);
    });
}
