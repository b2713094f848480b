//! Messages in parcels: which rank holds the parcels, and what happens to messages that find none.

use core::ptr::NonNull;

use strait::boot::SegmentConfig;
use strait::{Endpoint, World};
use strait_core::buffer::copy::fills_alike;
use strait_core::engine::{FailureCause, Fault, Gone, ProgressError, Status, Tuning};
use strait_core::layout::Corrupt;
use strait_core::shm::{PARCEL, ParcelSet};
use strait_core::wire::Sequence;
use strait_tests::{Engines, in_one_thread, payload, threads};

const TAG: u32 = 3;

/// Length of a message that takes all parcels that a rank holds, and is large.
const FOUR: usize = 4 * PARCEL;

/// Makes the ranks open the ways to each other and take hold of their parcels.
fn open(worlds: &[World]) {
    for length in [8, 8, 2000] {
        for (source, destination) in [(0, 1), (1, 0)] {
            let data = payload::of(99, length);
            assert!(at_once(worlds, source, destination, &data));
            receive(worlds, source, destination, &data);
        }
    }
}

/// Sends a message and returns whether it left at once, without help of another rank.
fn at_once(worlds: &[World], source: u32, destination: u32, data: &[u8]) -> bool {
    let endpoint = worlds[source as usize].endpoint();
    endpoint.scope(|scope| scope.isend(data, destination, TAG).unwrap().test().unwrap().is_some())
}

/// Receives the next message, which must be `data`.
fn receive(worlds: &[World], source: u32, destination: u32, data: &[u8]) {
    let endpoint = worlds[destination as usize].endpoint();
    let mut bytes = vec![0xee; data.len() + 3];
    endpoint.scope(|scope| {
        let mut request = scope.irecv(&mut bytes, source, TAG).unwrap();
        while request.test().unwrap().is_none() {
            worlds[source as usize].endpoint().progress().unwrap();
        }
    });
    assert!(bytes[..data.len()] == *data, "{} bytes from {source}", data.len());
    assert_eq!(bytes[data.len()..], [0xee; 3]);
}

#[test]
fn what_came_in_parcels_is_answered_in_them() {
    in_one_thread(SegmentConfig { parcels: 8, ..SegmentConfig::new(2) }, |worlds| {
        open(worlds);
        let data: Vec<_> = (0..4).map(|id| payload::of(id, FOUR)).collect();
        assert!(at_once(worlds, 0, 1, &data[0]), "four parcels are here");
        assert!(!at_once(worlds, 0, 1, &data[1]), "none is left: it is announced");
        receive(worlds, 0, 1, &data[0]);
        receive(worlds, 0, 1, &data[1]);
        assert!(at_once(worlds, 1, 0, &data[2]), "those that came");
        assert!(at_once(worlds, 1, 0, &data[3]), "and those it began with");
        receive(worlds, 1, 0, &data[2]);
        receive(worlds, 1, 0, &data[3]);
        assert!(at_once(worlds, 0, 1, &data[0]) && at_once(worlds, 0, 1, &data[1]), "all eight");
        receive(worlds, 0, 1, &data[0]);
        receive(worlds, 0, 1, &data[1]);
    });
}

#[test]
fn a_rank_that_only_sends_gets_its_parcels_back() {
    in_one_thread(SegmentConfig::new(2), |worlds| {
        open(worlds);
        for id in 0..40 {
            let data = [payload::of(id, PARCEL), payload::of(id + 100, 2000)];
            for data in &data {
                assert!(at_once(worlds, 0, 1, data), "round {id}");
            }
            data.iter().for_each(|data| receive(worlds, 0, 1, data));
        }
        let data = payload::of(7, FOUR);
        assert!(at_once(worlds, 1, 0, &data), "the receiver has kept its own");
        receive(worlds, 1, 0, &data);
    });
}

#[test]
fn messages_wait_for_lent_parcels_and_keep_their_order() {
    const LENGTHS: [usize; 5] = [FOUR, 1100, PARCEL + 1, 3 * PARCEL, FOUR + 100];
    in_one_thread(SegmentConfig::new(2), |worlds| {
        open(worlds);
        let data: Vec<_> =
            (0..60).map(|id| payload::of(id, LENGTHS[id as usize % LENGTHS.len()])).collect();
        let endpoint = worlds[0].endpoint();
        endpoint.scope(|scope| {
            let mut sends: Vec<_> =
                data.iter().map(|data| scope.isend(data, 1, TAG).unwrap()).collect();
            let left = sends.iter_mut().filter_map(|send| send.test().unwrap()).count();
            assert!(left < data.len(), "not all leave at once");
            data.iter().for_each(|data| receive(worlds, 0, 1, data));
            for send in sends {
                send.wait().unwrap();
            }
        });
    });
}

#[test]
fn without_parcels_large_messages_are_announced() {
    in_one_thread(SegmentConfig { parcels: 0, ..SegmentConfig::new(2) }, |worlds| {
        open(worlds);
        let data = payload::of(1, FOUR);
        assert!(!at_once(worlds, 0, 1, &data));
        receive(worlds, 0, 1, &data);
    });
}

/// Sends messages of all lengths up to somewhat more than go in parcels, in both directions, and
/// several in a row.
#[test]
fn messages_of_all_lengths_keep_their_order_whatever_they_go_in() {
    const LENGTHS: [usize; 9] = [8, 1024, 1025, 2049, 10_000, PARCEL, PARCEL + 1, FOUR, FOUR + 1];

    fn send(endpoint: Endpoint<'_>, id: u64, peer: u32) {
        let length = LENGTHS[id as usize % LENGTHS.len()];
        endpoint.send(&payload::of(id, length), peer, TAG).unwrap();
    }

    fn take(endpoint: Endpoint<'_>, id: u64, peer: u32) {
        let length = LENGTHS[id as usize % LENGTHS.len()];
        let mut bytes = vec![0; FOUR + 8];
        assert_eq!(endpoint.recv(&mut bytes, peer, TAG).unwrap().bytes, length, "message {id}");
        assert_eq!(payload::first_difference(id, &bytes[..length]), None, "message {id}");
    }

    threads(SegmentConfig::new(2), |world| {
        let (endpoint, rank) = (world.endpoint(), world.rank());
        let peer = 1 - rank;
        for row in [1, 2, 7, 20] {
            for round in 0..20 {
                let ids = round * row..(round + 1) * row;
                if rank == 0 {
                    ids.clone().for_each(|id| send(endpoint, id, peer));
                    ids.for_each(|id| take(endpoint, id, peer));
                } else {
                    ids.clone().for_each(|id| take(endpoint, id, peer));
                    ids.for_each(|id| send(endpoint, id, peer));
                }
            }
        }
        world.finalize().unwrap();
    });
}

/// Rank 0 names a parcel of rank 1's own, and a parcel that does not exist.
#[test]
fn a_parcel_that_is_not_the_peer_s_is_an_error() {
    for number in [4_u8, 64, u8::MAX] {
        let mut job = Engines::new(SegmentConfig::new(2));
        // The first message goes through a cell, and reports that the fastbox is in use.
        job.send(0, 1, 0, 8);
        job.send(0, 1, 0, 8);
        job.send(0, 1, 0, 5000);
        let (pair, _) = job.arena.segment().plan().pair_range(0, 1);
        // Behind two credits, in the first line of the baton: header word, key, and within the
        // payload the bytes before the number.
        job.arena.scribble(pair + 2 * 64 + 16 + 20, &number.to_ne_bytes());
        let expected =
            ProgressError::Corrupt(Corrupt::Parcel { found: number.into(), parcels: 64 });
        for _ in 0..3 {
            assert_eq!(job.engines[1].progress(), Err(expected));
        }
    }
}

/// Returns a job in which rank 0 has sent a message of `LONG` bytes, the third, with its second
/// piece unmarked. Also returns the place of the mark and its value.
fn in_the_middle() -> (Engines, usize, [u8; 8]) {
    let mut job = Engines::new(SegmentConfig::new(2));
    // The first message goes through a cell, and reports that the fastbox is in use.
    job.send(0, 1, 0, 8);
    job.send(0, 1, 0, 8);
    assert_eq!(job.send(0, 1, 1, LONG), None, "in a parcel");
    let mut sequence = Sequence::first(0, 1);
    sequence += 2;
    let (marks, _) = job.arena.segment().plan().parcel_range(0, 1, ParcelSet::First);
    let second = marks + 64;
    job.arena.scribble(second, &[0; 8]);
    (job, second, sequence.word().to_ne_bytes())
}

const LONG: usize = 8000;

#[test]
fn a_piece_is_taken_when_it_is_marked() {
    for comes_first in [true, false] {
        let (mut job, second, mark) = in_the_middle();
        let mut receive = comes_first.then(|| job.receive(1, 0, 1, LONG).unwrap());
        for _ in 0..3 {
            job.engines[1].progress().unwrap();
        }
        let id = *receive.get_or_insert_with(|| job.receive(1, 0, 1, LONG).unwrap());
        job.engines[1].progress().unwrap();
        assert_eq!(job.engines[1].test(id), None, "a piece is missing");
        job.arena.scribble(second, &mark);
        job.engines[1].progress().unwrap();
        let whole = Status { source: 0, tag: 1, bytes: LONG };
        assert_eq!(job.engines[1].test(id), Some(Ok(whole)));
    }
}

#[test]
fn a_death_while_filling_a_parcel_fails_the_message() {
    let (mut job, ..) = in_the_middle();
    let id = job.receive(1, 0, 1, LONG).unwrap();
    job.engines[1].progress().unwrap();
    assert_eq!(job.engines[1].peer_gone(0, Gone::Failed(FailureCause::Ended)), Ok(true));
    assert_eq!(
        job.engines[1].test(id),
        Some(Err(Fault::PeerFailed { rank: 0, sign: FailureCause::Ended }))
    );
}

/// A clock decides by which stores a rank fills its cells. What it says changes no byte. Where the
/// processor fills alike by all stores, no message is timed.
#[test]
fn messages_in_cells_arrive_whole_by_either_kind_of_stores() {
    let config = SegmentConfig { parcels: 0, ..SegmentConfig::new(2) };
    let (mut job, mut timed) = (Engines::tuned(config, Tuning::default()), 0);
    for round in 0..8 {
        for tag in 0..60 {
            let length = 4096 + tag as usize;
            let data = job.buffer(length);
            let bytes = payload::of(round * 60 + u64::from(tag), length);
            // SAFETY: the buffer lives as long as the job, and no engine has it yet.
            unsafe { { data }.scatter(NonNull::from(bytes.as_slice()).cast(), length) };
            let due = job.engines[0].is_fill_due(1, length);
            job.send_from(0, 1, tag, data);
            if due {
                timed += 1;
                job.engines[0].fill_timed(1, if round < 4 { 2000 } else { 100 });
            }
        }
        for tag in 0..60 {
            let length = 4096 + tag as usize;
            let buffer = job.buffer(length);
            job.receive_to(1, 0, tag, buffer);
            while job.engines[1].progress().unwrap() {}
            let mut bytes = vec![0; length];
            // SAFETY: the buffer lives as long as the job, and its receive is complete.
            unsafe { { buffer }.gather(NonNull::from(bytes.as_mut_slice()).cast(), length) };
            let wrong = payload::first_difference(round * 60 + u64::from(tag), &bytes);
            assert_eq!(wrong, None, "{tag} of round {round}");
        }
    }
    let expected = if fills_alike(4096) { 0..=0 } else { 7..=30 };
    assert!(expected.contains(&timed), "{timed} messages are timed, seldom while that is slow");
}
