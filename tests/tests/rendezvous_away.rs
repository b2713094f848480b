//! Large messages while one side computes outside the library: the other side moves them alone.

use strait::{Rendezvous, Transfer, Tuning};
use strait_core::engine::RequestId;
use strait_core::layout::SegmentConfig;
use strait_core::shm::Slumber;
use strait_core::sync::Ordering::SeqCst;
use strait_core::sync::fence;
use strait_tests::{Arena, Engines};

const LENGTH: usize = 700_001;

/// Makes progress on both engines until rank 1 has its message. Returns the jobs of each.
fn jobs_until(job: &mut Engines, receive: RequestId) -> [u32; 2] {
    let mut jobs = [0; 2];
    loop {
        for (rank, jobs) in jobs.iter_mut().enumerate() {
            job.engines[rank].progress().unwrap();
            *jobs += u32::from(job.transfer(rank, Ok(())));
        }
        if let Some(outcome) = job.engines[1].test(receive) {
            assert_eq!(outcome.unwrap().bytes, LENGTH);
            return jobs;
        }
    }
}

/// Starts a message from rank 0 that uses an RTR of rank 1, which computes. Rank 0 has moved a
/// piece of it. Returns the send and the receive.
fn begun_alone() -> (Engines, RequestId, RequestId) {
    let (rendezvous, transfer) = (Rendezvous::Speculative, Transfer::Auto);
    let tuning = Tuning { rendezvous, transfer, ..Arena::tuning() };
    let mut job = Engines::tuned(SegmentConfig::new(2), tuning);
    let receive = job.receive(1, 0, 0, LENGTH).unwrap();
    let send = job.send(0, 1, 0, LENGTH).unwrap();
    jobs_until(&mut job, receive);
    job.engines[0].progress().unwrap();
    assert!(job.engines[0].test(send).unwrap().is_ok());

    let receive = job.receive(1, 0, 0, LENGTH).unwrap();
    job.engines[0].progress().unwrap();
    let send = job.send(0, 1, 0, LENGTH).unwrap();
    assert_eq!(job.engines[0].rtrs().used, 1);
    // The sender looks more than once before it counts the receiver as away.
    let moves = (0..8).any(|_| job.engines[0].progress().is_ok() && job.transfer(0, Ok(())));
    assert!(moves, "the receiver computes, so the sender moves");
    (job, send, receive)
}

#[test]
fn the_rest_of_a_message_goes_as_any_does_once_its_receiver_waits() {
    let (mut job, send, receive) = begun_alone();
    job.arena.segment().rank_block(1).liveness.set_inside(true);
    assert_eq!(jobs_until(&mut job, receive), [0, 0], "the copy ring is tried first");
    job.engines[0].progress().unwrap();
    assert!(job.engines[0].test(send).unwrap().is_ok());
}

#[test]
fn a_message_that_goes_on_through_the_ring_gives_its_buffer_back_at_once() {
    let (mut job, send, receive) = begun_alone();
    job.arena.segment().rank_block(1).liveness.set_inside(true);
    job.engines[0].progress().unwrap();
    job.engines[0].detach(send).unwrap();
    assert_eq!(jobs_until(&mut job, receive), [0, 0]);
}

/// Starts a message from rank 0 to a receive of rank 1, which has met it and computes.
fn met_and_away() -> Engines {
    let (rendezvous, transfer) = (Rendezvous::Plain, Transfer::Auto);
    let mut job =
        Engines::tuned(SegmentConfig::new(2), Tuning { rendezvous, transfer, ..Arena::tuning() });
    job.receive(1, 0, 0, LENGTH).unwrap();
    job.send(0, 1, 0, LENGTH).unwrap();
    job.engines[0].progress().unwrap();
    job.engines[1].progress().unwrap();
    job
}

/// A rank sleeps after a progress call in which nothing moved.
#[test]
fn a_sender_whose_receiver_computes_does_not_rest_before_it_moves_the_message() {
    let mut job = met_and_away();
    loop {
        let moved = job.engines[0].progress().unwrap();
        if job.transfer(0, Ok(())) {
            break;
        }
        assert!(moved, "it rests, and nobody moves the message");
    }
}

#[test]
fn a_rank_that_begins_to_wait_wakes_the_other_side_of_its_message() {
    let mut job = met_and_away();
    let segment = job.arena.segment();
    while job.engines[1].poll_bell().is_some() {}
    segment.rank_block(0).doorbell.prepare_to_sleep(Slumber::Word, || fence(SeqCst));
    segment.rank_block(1).liveness.set_inside(true);
    job.engines[1].tell_partners();
    assert_eq!(job.engines[1].poll_bell(), Some(0));
}
