//! Links between nodes, which are made when two ranks communicate for the first time. The device is
//! that of `STRAIT_HCA`: `cargo xtask vm` runs these tests over RDMA devices, too.

use strait::boot::SegmentConfig;
use strait::{Error, Fault, Nodes, World};
use strait_tests::{Ranks, die, threads_on};

/// Asserts that an operation ended because `rank` died.
#[track_caller]
fn assert_failed<T: core::fmt::Debug>(outcome: Result<T, Error>, rank: u32) {
    let is_expected = |found: u32| found == rank;
    let failed = matches!(
        outcome,
        Err(Error::Fault(Fault::PeerFailed { rank, .. })) if is_expected(rank)
    );
    assert!(failed, "{outcome:?}");
}

#[test]
fn a_ring_makes_the_links_that_it_uses() {
    threads_on(SegmentConfig::new(6), &Nodes::named([0, 1, 2, 0, 1, 2]), |world| {
        let (endpoint, me, ranks) = (world.endpoint(), world.rank(), world.size());
        assert_eq!(world.links(), 0, "no rank has sent anything");
        let (next, previous) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        for number in 0..10_u32 {
            let mut room = [0];
            endpoint.sendrecv(&[number], next, 1, &mut room, previous, 1).unwrap();
            assert_eq!((room, world.links()), ([number], 2));
        }
        world.finalize().unwrap();
    });
}

#[test]
fn ranks_that_say_nothing_make_none() {
    Ranks::new(4, "ranks_that_say_nothing_make_none").on_nodes(2).run(|world| {
        assert_eq!(world.links(), 0);
        world.finalize().unwrap();
    });
}

/// All ranks send to all at once, so that connection requests cross.
#[test]
fn two_that_speak_at_once_have_one_link() {
    Ranks::new(6, "two_that_speak_at_once_have_one_link").on_nodes(2).run(|world| {
        let (endpoint, me) = (world.endpoint(), world.rank());
        for distance in 0..3 {
            // Ranks 0 to 2 are on one node, and 3 to 5 on the other.
            let other = (3 - me / 3 * 3) + (6 + distance - me % 3) % 3;
            let mut room = [0];
            endpoint.sendrecv(&[me], other, 1, &mut room, other, 1).unwrap();
            assert_eq!(room, [other]);
        }
        assert_eq!(world.links(), 3);
        world.finalize().unwrap();
    });
}

/// A rank dies before any rank on another node has communicated with it. The others send to it,
/// receive from it or probe.
fn die_unmet(world: World) {
    let (endpoint, me) = (world.endpoint(), world.rank());
    // This rank is alone on its node, so that it has no links.
    if me >= 4 {
        let other = 9 - me;
        endpoint.sendrecv(&[0_u8], other, 1, &mut [0_u8], other, 1).unwrap();
    }
    // Before its death it would answer.
    match me {
        5 => die(),
        4 => {
            assert_failed(endpoint.recv(&mut [0_u8], 5, 2), 5);
            (0..4).for_each(|other| endpoint.send(&[0_u8], other, 2).unwrap());
        }
        _ => {
            endpoint.recv(&mut [0_u8], 4, 2).unwrap();
        }
    }
    match me {
        0 => assert_failed(endpoint.send(&[0_u8; 1000], 5, 1), 5),
        1 => assert_failed(endpoint.recv(&mut [0_u8], 5, 1), 5),
        2 => assert_failed(endpoint.probe(5, 1), 5),
        3 => while endpoint.iprobe(5, 1).is_ok_and(|found| found.is_none()) {},
        _ => {}
    }
    if me < 4 {
        assert_failed(endpoint.send(&[0_u8], 5, 1), 5);
        let mut room = [0];
        endpoint.sendrecv(&[me], me ^ 1, 1, &mut room, me ^ 1, 1).unwrap();
        assert_eq!(room, [me ^ 1]);
    }
    world.finalize().unwrap();
}

#[test]
fn a_death_before_the_first_message_is_a_failure() {
    let name = "a_death_before_the_first_message_is_a_failure";
    Ranks::new(6, name).on_nodes(3).with_deaths(&[5]).run(die_unmet);
}

#[test]
fn a_death_before_the_first_message_is_a_failure_without_a_launcher() {
    let name = "a_death_before_the_first_message_is_a_failure_without_a_launcher";
    Ranks::new(6, name).on_nodes(3).by_pmi().with_deaths(&[5]).run(die_unmet);
}

/// A rank leaves without a message to the others. Either the launcher reports this, or its
/// connection listener does not answer, whichever comes first.
#[test]
fn a_rank_that_left_unmet_sends_nothing() {
    Ranks::new(2, "a_rank_that_left_unmet_sends_nothing").on_nodes(2).run(|world| {
        if world.rank() == 0 {
            let error = world.endpoint().recv(&mut [0_u8], 1, 1).unwrap_err();
            let is_gone = matches!(
                error,
                Error::Fault(Fault::PeerFinished { rank: 1 } | Fault::PeerFailed { rank: 1, .. })
            );
            assert!(is_gone, "{error}");
        }
        world.finalize().unwrap();
    });
}
