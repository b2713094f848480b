//! Sender and receiver with the real matching queues between them, by hand and at random.

use std::collections::VecDeque;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::matching::{ANY_SOURCE, ANY_TAG, Ahead, Envelope, Pattern, Posted, Unexpected};
use crate::memory::counted::Counted;
use crate::wire::Key;

const PEER: u32 = 3;
const CONTEXT: u32 = 1;

const fn exact(tag: u32) -> Pattern {
    Pattern { context: CONTEXT, source: PEER, tag }
}

const fn key(tag: u32) -> Key {
    Key::new(CONTEXT, tag)
}

/// How a message comes: its packet, without the data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Packet {
    Eager,
    Rts(Option<Turn>),
    RtrAck(Turn, u32),
}

/// A rank that sends and one that receives. Receives and messages are numbered in the order they begin.
struct Pair<R: Rules = All> {
    sender: Sender<u32, Counted, R>,
    receiver: Receiver<Counted, R>,
    posted: Posted<Counted>,
    unexpected: Unexpected<Counted>,
    /// The turn that each receive asked for.
    asked: Vec<Option<Turn>>,
    handles: Vec<Option<u32>>,
    patterns: Vec<Pattern>,
    /// Messages, and the receive that each has met.
    sent: Vec<(Packet, u32, Option<u32>)>,
    packets: VecDeque<u32>,
    rtrs: VecDeque<(u32, Turn, u32)>,
    choice: Rendezvous,
}

impl<R: Rules> Pair<R> {
    fn new(memory: Counted) -> Self {
        Self {
            sender: Sender::new(memory.clone()),
            receiver: Receiver::new(memory.clone()),
            posted: Posted::new(memory.clone()),
            unexpected: Unexpected::new(memory),
            asked: Vec::new(),
            handles: Vec::new(),
            patterns: Vec::new(),
            sent: Vec::new(),
            packets: VecDeque::new(),
            rtrs: VecDeque::new(),
            choice: Rendezvous::Speculative,
        }
    }

    /// As `new`, with an envelope of each tag below 3 open: both sides have seen one message of it.
    fn open(memory: Counted) -> Self {
        let mut pair = Self::new(memory);
        for tag in 0..3 {
            pair.send(tag);
            pair.deliver();
            assert_eq!(pair.recv(exact(tag)), None);
        }
        pair
    }

    /// Receives into a large buffer; the turn that this asks for.
    fn recv(&mut self, pattern: Pattern) -> Option<Turn> {
        self.receive(pattern, true)
    }

    fn receive(&mut self, pattern: Pattern, large: bool) -> Option<Turn> {
        let number = self.asked.len() as u32;
        self.asked.push(None);
        self.handles.push(None);
        self.patterns.push(pattern);
        if let Some(found) = self.unexpected.find(&pattern) {
            self.unexpected.remove(found.handle);
            self.meet(found.message, number);
            return None;
        }
        let ahead = self.posted.ahead_of(&pattern).map(|before| self.asked[before as usize]);
        let turn = self.receiver.may_request(&pattern, ahead).filter(|_| large);
        self.asked[number as usize] = turn;
        self.handles[number as usize] = Some(self.posted.post(pattern, number).unwrap());
        if let Some(turn) = turn {
            self.rtrs.push_back((pattern.tag, turn, number));
        }
        turn
    }

    fn push(&mut self, packet: Packet, tag: u32) -> Packet {
        self.packets.push_back(self.sent.len() as u32);
        self.sent.push((packet, tag, None));
        packet
    }

    fn eager(&mut self, tag: u32) {
        self.sender.eager(PEER, key(tag));
        self.push(Packet::Eager, tag);
    }

    fn send(&mut self, tag: u32) -> Packet {
        let packet = match self.sender.start(PEER, key(tag), self.choice) {
            Start::Rts(turn) => Packet::Rts(turn),
            Start::Write { turn, target } => Packet::RtrAck(turn, target),
        };
        self.push(packet, tag)
    }

    /// The sender hears the next RTR.
    fn hear(&mut self) -> Option<Heard> {
        let (tag, turn, receive) = self.rtrs.pop_front()?;
        Some(self.sender.rtr(PEER, key(tag), turn, receive))
    }

    /// The receiver takes the next packet; the receive that its message meets.
    fn deliver(&mut self) -> Option<u32> {
        let message = self.packets.pop_front()?;
        let (packet, tag, _) = self.sent[message as usize];
        match packet {
            Packet::Eager => {}
            Packet::Rts(turn) => self.receiver.rts(PEER, key(tag), turn),
            Packet::RtrAck(turn, _) => self.receiver.rtr_ack(PEER, key(tag), turn),
        }
        let envelope = Envelope { context: CONTEXT, source: PEER, tag };
        let receive = self.posted.take(&envelope);
        match receive {
            Some(receive) => self.meet(message, receive),
            None => drop(self.unexpected.insert(envelope, message).unwrap()),
        }
        receive
    }

    fn meet(&mut self, message: u32, receive: u32) {
        let (packet, tag, met) = &mut self.sent[message as usize];
        assert_eq!(met.replace(receive), None);
        let asked = self.asked[receive as usize];
        match *packet {
            Packet::RtrAck(turn, target) => {
                assert_eq!((target, Some(turn)), (receive, asked), "written to another receive");
            }
            Packet::Eager if asked.is_some() => self.receiver.mispredicted(PEER, key(*tag)),
            Packet::Rts(_) | Packet::Eager => {}
        }
    }

    /// What is under way arrives.
    fn settle(&mut self) {
        while self.hear().is_some() {}
        while !self.packets.is_empty() {
            self.deliver();
        }
    }
}

fn with(test: impl FnOnce(Pair)) {
    Counted::lend(|memory| test(Pair::open(memory)));
}

#[test]
fn the_first_message_of_an_envelope_opens_it() {
    Counted::lend(|memory| {
        let mut pair = Pair::<All>::new(memory);
        assert_eq!(pair.recv(exact(0)), None, "nothing is known of the envelope");
        assert_eq!(pair.send(0), Packet::Rts(Some(Turn::FIRST)));
        assert_eq!(pair.deliver(), Some(0));
        assert!(pair.recv(exact(0)).is_some());
    });
}

#[test]
fn a_receiver_that_comes_first_is_written_to() {
    with(|mut pair| {
        for _ in 0..100 {
            let turn = pair.recv(exact(0)).unwrap();
            assert_eq!(pair.hear(), Some(Heard::Kept));
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
        assert_eq!(pair.hear(), Some(Heard::Dropped), "it crossed the RTS");
    });
}

/// The same figures, case 2: the first message is announced before its RTR comes.
#[test]
fn an_rtr_that_crosses_its_rts_is_dropped() {
    with(|mut pair| {
        pair.recv(exact(0));
        let second = pair.recv(exact(0)).unwrap();
        assert!(matches!(pair.send(0), Packet::Rts(Some(_))));
        assert_eq!([pair.hear(), pair.hear()], [Some(Heard::Dropped), Some(Heard::Kept)]);
        assert_eq!(pair.send(0), Packet::RtrAck(second, 4));
        assert_eq!([pair.deliver(), pair.deliver()], [Some(3), Some(4)]);
    });
}

/// Figure 9: a receive that predicts an eager message, or has a wildcard, sends no RTR, so nor do those behind it.
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

/// Figure 10, case 2: the receiver asks, and an eager message comes.
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
        // The cancelled receive is gone before its message comes.
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
        assert!(matches!(pair.sender.start(PEER, key(0), pair.choice), Start::Write { .. }));
        let turn = pair.sender.refused(PEER, key(0));
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
fn a_record_that_is_made_anew_counts_on() {
    with(|mut pair| {
        pair.recv(exact(0));
        // More envelopes than there are records, so that the one of tag 0 goes.
        for tag in 0..4 * RECORDS as u32 {
            pair.sender.start(PEER, Key::new(9, tag), pair.choice);
        }
        let Packet::Rts(Some(turn)) = pair.send(0) else { panic!("by RTS") };
        assert!(turn.since(pair.asked[3].unwrap()).unwrap() > 0);
        assert_eq!(pair.hear(), Some(Heard::Dropped), "it is of a record that went");
        pair.settle();
    });
}

#[test]
fn a_peer_that_is_gone_leaves_nothing() {
    with(|mut pair| {
        assert!(pair.sender.speculates(PEER, key(0)) && pair.receiver.speculates(PEER, key(0)));
        pair.sender.forget(PEER);
        pair.receiver.forget(PEER);
        assert!(!pair.sender.speculates(PEER, key(0)) && !pair.receiver.speculates(PEER, key(0)));
        assert_eq!(pair.sender.rtr(PEER, key(0), Turn::FIRST.after(1), 0), Heard::Dropped);
    });
}

#[test]
fn without_memory_nothing_is_speculated_and_nothing_fails() {
    Counted::lend(|memory| {
        let mut sender = Sender::<u32, _>::new(memory.clone());
        let mut receiver = Receiver::<_>::new(memory.clone());
        memory.refuse(true);
        for _ in 0..3 {
            sender.eager(PEER, key(0));
            assert_eq!(sender.start(PEER, key(0), Rendezvous::Adaptive), Start::Rts(None));
            receiver.rts(PEER, key(0), Some(Turn::FIRST));
            assert_eq!(receiver.may_request(&exact(0), Ahead::Nothing), None);
        }
        memory.refuse(false);
        assert_eq!(sender.start(PEER, key(0), Rendezvous::Adaptive), Start::Rts(Some(Turn::FIRST)));
    });
}

/// Rounds in each of which the message is announced before its RTR comes; how many RTRs were sent.
fn cross(pair: &mut Pair, rounds: u32) -> u32 {
    let before = pair.sender.usage().heard;
    for _ in 0..rounds {
        pair.recv(exact(0));
        pair.send(0);
        pair.settle();
    }
    (pair.sender.usage().heard - before) as u32
}

/// Rounds in each of which the receive comes first; how many RTRs were used.
fn use_rtrs(pair: &mut Pair, rounds: u32) -> u32 {
    let before = pair.sender.usage().used;
    for _ in 0..rounds {
        pair.recv(exact(0));
        pair.settle();
        pair.send(0);
        pair.settle();
    }
    (pair.sender.usage().used - before) as u32
}

#[test]
fn an_envelope_whose_rtrs_are_not_used_stops_and_is_tried_again() {
    with(|mut pair| {
        pair.choice = Rendezvous::Adaptive;
        // The last RTR is on its way when the RTS that stops the next leaves.
        assert_eq!(cross(&mut pair, PAUSE_MIN), SAMPLES + 1);
        assert!(!pair.sender.speculates(PEER, key(0)));
        assert_eq!(pair.sender.usage().stopped, 1);
        // Now the program has changed its ways.
        let rounds = PAUSE_MIN + 100;
        assert!(use_rtrs(&mut pair, rounds) >= 100);
        assert_eq!(pair.sender.usage().stopped, 1);
        assert!(pair.sender.speculates(PEER, key(0)));
    });
}

#[test]
fn pauses_grow_so_that_trials_cost_little() {
    with(|mut pair| {
        pair.choice = Rendezvous::Adaptive;
        let messages = if cfg!(miri) { 500 } else { 100_000 };
        let wasted = cross(&mut pair, messages);
        // Pauses of 64, 128 … 4096 messages, then of 4096 each.
        let trials = 7 + messages / PAUSE_MAX;
        assert!(wasted <= trials * (SAMPLES + 2), "{wasted} RTRs in {trials} trials");
        if !cfg!(miri) {
            assert!(wasted * 100 < messages, "{wasted} RTRs");
        }
    });
}

#[test]
fn speculation_that_was_asked_for_never_stops() {
    with(|mut pair| {
        assert_eq!(cross(&mut pair, 200), 200);
        assert_eq!(pair.sender.usage().stopped, 0);
    });
}

/// One thing that happens. Tags come from a small space, so that many match.
#[derive(Clone, Copy, Debug)]
enum Step {
    Receive(Pattern, bool),
    Send(u32),
    Eager(u32),
    Hear,
    Deliver,
    Choose(Rendezvous),
}

fn step() -> impl Strategy<Value = Step> {
    let tag = 0..3_u32;
    let source = prop_oneof![9 => Just(PEER), 1 => Just(ANY_SOURCE)];
    let tags = prop_oneof![9 => tag.clone(), 1 => Just(ANY_TAG)];
    let pattern =
        (source, tags).prop_map(|(source, tag)| Pattern { context: CONTEXT, source, tag });
    prop_oneof![
        12 => (pattern, prop::bool::weighted(0.9)).prop_map(|(p, large)| Step::Receive(p, large)),
        10 => tag.clone().prop_map(Step::Send),
        2 => tag.prop_map(Step::Eager),
        12 => Just(Step::Hear),
        12 => Just(Step::Deliver),
        1 => (0..3_usize).prop_map(|which| Step::Choose(Rendezvous::ALL[which])),
    ]
}

/// Fewer records than envelopes, and few RTRs, so that both run out.
struct Small;

impl Rules for Small {
    const RTRS: u32 = 4;
    const RECORDS: usize = 2;
}

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 3 } else { 500 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Whatever the order of events: who writes writes to the receive that the message meets ([`Pair::meet`]), an RTR goes only
    /// where no earlier receive that could take its message has none, and the number of RTRs is bounded.
    #[test]
    fn no_message_goes_to_another_receive(steps in vec(step(), 0..200)) {
        Counted::lend(|memory| {
            let mut pair = Pair::<Small>::open(memory);
            for step in steps {
                match step {
                    Step::Receive(pattern, large) => {
                        let waiting: Vec<u32> =
                            pair.posted.patterns().map(|(_, _, receive)| receive).collect();
                        if pair.receive(pattern, large).is_some() {
                            let Pattern { context, source, tag } = pattern;
                            let envelope = Envelope { context, source, tag };
                            let earlier = waiting.iter().map(|&receive| receive as usize);
                            let silent = |receive: usize| pair.asked[receive].is_none();
                            let matching = earlier
                                .filter(|&receive| pair.patterns[receive].matches(&envelope));
                            let matching: Vec<usize> = matching.collect();
                            assert!(!matching.iter().any(|&receive| silent(receive)));
                            assert!(matching.len() < Small::RTRS as usize);
                        }
                    }
                    Step::Send(tag) => drop(pair.send(tag)),
                    Step::Eager(tag) => pair.eager(tag),
                    Step::Hear => drop(pair.hear()),
                    Step::Deliver => drop(pair.deliver()),
                    Step::Choose(choice) => pair.choice = choice,
                }
            }
            pair.settle();
        });
    }
}
