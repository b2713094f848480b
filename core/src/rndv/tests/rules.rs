//! One test for each rule.

use super::*;
use crate::matching::{ANY_SOURCE, ANY_TAG, Ahead};

#[test]
fn the_first_message_of_an_envelope_opens_it() {
    Counted::lend(|memory| {
        let mut pair = Pair::<All>::new(memory);
        assert_eq!(pair.recv(exact(0)), None, "nothing is known of the envelope");
        assert_eq!(pair.send(0), Packet::Rts(Some(Turn::FIRST.after(RTRS))));
        assert_eq!(pair.deliver(), Some(0));
        assert!(pair.recv(exact(0)).is_some());
    });
}

#[test]
fn a_receiver_that_comes_first_is_written_to() {
    with(|mut pair| {
        for _ in 0..100 {
            let turn = pair.recv(exact(0)).unwrap();
            assert_eq!(pair.hear(), Some(RtrOutcome::Kept));
            let receive = pair.asked.len() as u32 - 1;
            assert_eq!(pair.send(0), Packet::RtrAck(turn, receive));
            assert_eq!(pair.deliver(), Some(receive));
        }
        assert_eq!(pair.sender.usage(), Usage { heard: 100, used: 100, stopped: 0 });
    });
}

/// `[SpecRndv09]` figures 7 and 8, case 1: the first message uses the RTR, the second is announced.
#[test]
fn an_rts_behind_an_rtr_ack_meets_the_second_receive() {
    with(|mut pair| {
        pair.recv(exact(0));
        pair.hear();
        assert!(matches!(pair.send(0), Packet::RtrAck(..)));
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))));
        pair.recv(exact(0));
        assert_eq!([pair.deliver(), pair.deliver()], [Some(3), Some(4)]);
        assert_eq!(pair.hear(), Some(RtrOutcome::Dropped), "it crossed the RTS");
    });
}

/// `[SpecRndv09]` figures 7 and 8, case 2: the first message is announced before its RTR arrives.
#[test]
fn an_rtr_that_crosses_its_rts_is_dropped() {
    with(|mut pair| {
        pair.recv(exact(0));
        let second = pair.recv(exact(0)).unwrap();
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))));
        assert_eq!([pair.hear(), pair.hear()], [Some(RtrOutcome::Dropped), Some(RtrOutcome::Kept)]);
        assert_eq!(pair.send(0), Packet::RtrAck(second, 4));
        assert_eq!([pair.deliver(), pair.deliver()], [Some(3), Some(4)]);
    });
}

/// `[SpecRndv09]` figure 9: a receive that predicts an eager message, or has a wildcard, sends no
/// RTR. Neither do the receives behind it.
#[test]
fn no_rtr_goes_past_a_receive_that_has_none() {
    for silent in
        [exact(0), Pattern { tag: ANY_TAG, ..exact(0) }, Pattern { source: ANY_SOURCE, ..exact(0) }]
    {
        with(|mut pair| {
            pair.receive(silent, false);
            assert_eq!([pair.recv(exact(0)), pair.recv(exact(0))], [None, None]);
            assert_eq!(pair.recv(exact(1)).is_some(), silent.tag != ANY_TAG);
            pair.send(0);
            assert_eq!(pair.deliver(), Some(3));
            assert_eq!(pair.recv(exact(0)), None, "the second has none either");
            pair.send(0);
            pair.send(0);
            pair.send(0);
            pair.settle();
            assert!(pair.recv(exact(0)).is_some());
        });
    }
}

#[test]
fn wildcards_ask_for_nothing() {
    with(|mut pair| {
        for (source, tag) in [(PEER, ANY_TAG), (ANY_SOURCE, 0), (ANY_SOURCE, ANY_TAG)] {
            assert_eq!(pair.recv(Pattern { context: CONTEXT, source, tag }), None);
        }
    });
}

/// `[SpecRndv09]` figure 10, case 2: the receiver asks, and an eager message arrives.
#[test]
fn a_mispredicted_rtr_is_not_used_for_a_later_message() {
    for heard_first in [true, false] {
        with(|mut pair| {
            pair.recv(exact(0));
            pair.recv(exact(0));
            if heard_first {
                pair.settle();
            }
            pair.eager(0);
            assert!(matches!(pair.send(0), Packet::Rts(Some(_))), "the Eager-flag is set");
            pair.settle();
            assert_eq!(pair.sent[4].2, Some(4));
            // The RTS said resume-RTR.
            assert!(pair.recv(exact(0)).is_some());
            pair.settle();
            assert!(matches!(pair.send(0), Packet::RtrAck(..)));
            pair.settle();
        });
    }
}

#[test]
fn after_a_misprediction_nothing_is_asked_until_the_next_rts() {
    with(|mut pair| {
        pair.recv(exact(0));
        pair.eager(0);
        pair.settle();
        assert_eq!(pair.recv(exact(0)), None);
        pair.send(0);
        pair.settle();
        assert!(pair.recv(exact(0)).is_some());
    });
}

#[test]
fn rtrs_of_an_envelope_are_bounded() {
    with(|mut pair| {
        let asked = (0..2 * RTRS).filter(|_| pair.recv(exact(0)).is_some()).count();
        assert_eq!(asked as u32, RTRS);
        pair.settle();
        for _ in 0..RTRS {
            assert!(matches!(pair.send(0), Packet::RtrAck(..)));
        }
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))));
        pair.settle();
    });
}

#[test]
fn a_retraction_voids_its_rtr_and_those_behind() {
    with(|mut pair| {
        let turns = [(); 3].map(|()| pair.recv(exact(0)).unwrap());
        pair.settle();
        assert_eq!(pair.send(0), Packet::RtrAck(turns[0], 3));
        pair.sender.retract(PEER, key(0), turns[1]);
        // The cancelled receive is removed before its message arrives.
        pair.posted.cancel(pair.handles[4].unwrap());
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))));
        pair.settle();
        assert_eq!(pair.sent[4].2, Some(5));
    });
}

#[test]
fn a_retraction_that_comes_too_late_changes_nothing() {
    with(|mut pair| {
        let turns = [(); 2].map(|()| pair.recv(exact(0)).unwrap());
        pair.settle();
        pair.send(0);
        pair.sender.retract(PEER, key(0), turns[0]);
        assert_eq!(pair.send(0), Packet::RtrAck(turns[1], 4));
        pair.settle();
    });
}

#[test]
fn a_refused_rtr_leaves_the_message_to_an_rts() {
    with(|mut pair| {
        pair.recv(exact(0));
        pair.recv(exact(0));
        pair.settle();
        assert!(matches!(pair.sender.start(PEER, key(0), pair.choice), RndvStart::Write { .. }));
        let turn = pair.sender.refused(PEER, key(0), pair.choice);
        pair.push(Packet::Rts(turn), 0);
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))));
        pair.settle();
        assert_eq!(pair.sender.usage().used, 0);
    });
}

#[test]
fn a_plain_message_stops_and_a_further_one_resumes() {
    with(|mut pair| {
        pair.recv(exact(0));
        pair.recv(exact(0));
        pair.settle();
        pair.choice = Rendezvous::Plain;
        assert_eq!(pair.send(0), Packet::Rts(None));
        pair.settle();
        assert_eq!(pair.recv(exact(0)), None);
        pair.choice = Rendezvous::Speculative;
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))), "the RTR was for the message before");
        pair.send(0);
        pair.settle();
        assert!(pair.recv(exact(0)).is_some());
    });
}

#[test]
fn a_recreated_record_counts_on() {
    with(|mut pair| {
        pair.recv(exact(0));
        // The loop opens more envelopes than there are records, which evicts the record of tag 0.
        for tag in 0..4 * RECORDS as u32 {
            pair.sender.start(PEER, Key::new(9, tag), pair.choice);
        }
        let Packet::Rts(Some(turn)) = pair.send(0) else { panic!("by RTS") };
        assert!(turn.since(pair.asked[3].unwrap()).unwrap() > 0);
        assert_eq!(pair.hear(), Some(RtrOutcome::Dropped), "its record was evicted");
        pair.settle();
    });
}

#[test]
fn the_first_receive_asks_where_both_sides_opened_the_envelope_ahead() {
    Counted::lend(|memory| {
        let mut pair: Pair = Pair::new(memory);
        pair.sender.open_ahead(PEER, key(0));
        pair.receiver.open_ahead(PEER, key(0));
        assert!(pair.receiver.is_announced_to() && pair.sender.speculates(PEER, key(0)));
        let turn = pair.recv(exact(0)).unwrap();
        assert_eq!(pair.hear(), Some(RtrOutcome::Kept));
        assert_eq!(pair.send(0), Packet::RtrAck(turn, 0));
        pair.settle();
        assert_eq!(pair.recv(exact(0)), Some(turn.after(1)));
    });
}

#[test]
fn first_turns_are_void_where_only_the_receiver_opened_the_envelope_ahead() {
    Counted::lend(|memory| {
        let mut pair: Pair = Pair::new(memory);
        pair.receiver.open_ahead(PEER, key(0));
        let asked: Vec<_> = (0..RTRS).filter_map(|_| pair.recv(exact(0))).collect();
        assert_eq!(asked.len(), RTRS as usize);
        // The eager message takes the first receive, so no RTR means the message that it asks for.
        pair.eager(0);
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))));
        while let Some(outcome) = pair.hear() {
            assert_eq!(outcome, RtrOutcome::Dropped);
        }
        pair.settle();
        assert!(pair.recv(exact(0)).is_none(), "receives with void RTRs are ahead");
    });
}

#[test]
fn a_peer_that_is_gone_leaves_nothing() {
    with(|mut pair| {
        let asks = |pair: &Pair| pair.receiver.may_request(&exact(0), Ahead::Nothing).is_some();
        assert!(pair.sender.speculates(PEER, key(0)) && asks(&pair));
        pair.sender.forget(PEER);
        pair.receiver.forget(PEER);
        assert!(!pair.sender.speculates(PEER, key(0)) && !asks(&pair));
        assert_eq!(pair.sender.rtr(PEER, key(0), Turn::FIRST.after(1), 0), RtrOutcome::Dropped);
    });
}

#[test]
fn without_memory_nothing_is_speculated_and_nothing_fails() {
    Counted::lend(|memory| {
        let mut sender = RtrSender::<u32, _>::new(memory.clone());
        let mut receiver = RtrReceiver::<_>::new(memory.clone());
        memory.refuse(true);
        for _ in 0..3 {
            sender.eager(PEER, key(0));
            assert_eq!(sender.start(PEER, key(0), Rendezvous::Adaptive), RndvStart::Rts(None));
            receiver.rts(PEER, key(0), Some(Turn::FIRST));
            assert_eq!(receiver.may_request(&exact(0), Ahead::Nothing), None);
        }
        memory.refuse(false);
        assert_eq!(
            sender.start(PEER, key(0), Rendezvous::Adaptive),
            RndvStart::Rts(Some(Turn::FIRST.after(RTRS)))
        );
    });
}

#[test]
fn the_mark_of_an_eager_message_voids_the_rtrs_that_were_sent_before_the_look() {
    with(|mut pair| {
        pair.sender.catch_up(PEER, key(0), 0, 1);
        pair.recv(exact(0));
        assert_eq!(pair.hear(), Some(RtrOutcome::Kept));
        // The second poll finds a mark; the third finds no new one.
        pair.sender.catch_up(PEER, key(0), 2, 2);
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))));
        assert_eq!(pair.deliver(), Some(3));
        pair.recv(exact(0));
        assert_eq!(pair.hear(), Some(RtrOutcome::Kept));
        pair.sender.catch_up(PEER, key(0), 2, 3);
        assert!(matches!(pair.send(0), Packet::RtrAck(..)));
    });
}

#[test]
fn a_mark_that_is_older_than_the_envelope_voids_nothing() {
    Counted::lend(|memory| {
        let mut pair = Pair::<All>::new(memory);
        pair.sender.catch_up(PEER, key(0), 1, 1);
        pair.send(0);
        pair.deliver();
        assert_eq!(pair.recv(exact(0)), None, "the message that has arrived");
        pair.recv(exact(0)).unwrap();
        assert_eq!(pair.hear(), Some(RtrOutcome::Kept));
        pair.sender.catch_up(PEER, key(0), 1, 2);
        assert!(matches!(pair.send(0), Packet::RtrAck(..)));
    });
}
