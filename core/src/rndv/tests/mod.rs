//! Tests of sender and receiver with the real matching queues between them.

mod adaptation;
mod chance;
mod rules;

use std::collections::VecDeque;
use std::vec::Vec;

use super::*;
use crate::matching::{Envelope, Pattern, PostedQueue, UnexpectedQueue};
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

/// The packet of a message, without the data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Packet {
    Eager,
    Rts(Option<Turn>),
    RtrAck(Turn, u32),
}

/// A sending rank and a receiving rank. Receives and messages are numbered in the order they start.
struct Pair<R: Rules = All> {
    sender: RtrSender<u32, Counted, R>,
    receiver: RtrReceiver<Counted, R>,
    posted: PostedQueue<Counted>,
    unexpected: UnexpectedQueue<Counted>,
    /// The turn that each receive asked for.
    asked: Vec<Option<Turn>>,
    handles: Vec<Option<u32>>,
    patterns: Vec<Pattern>,
    /// Messages, each with its packet, its tag and the receive that it has met.
    sent: Vec<(Packet, u32, Option<u32>)>,
    packets: VecDeque<u32>,
    rtrs: VecDeque<(u32, Turn, u32)>,
    choice: Rendezvous,
}

impl<R: Rules> Pair<R> {
    fn new(memory: Counted) -> Self {
        Self {
            sender: RtrSender::new(memory.clone()),
            receiver: RtrReceiver::new(memory.clone()),
            posted: PostedQueue::new(memory.clone()),
            unexpected: UnexpectedQueue::new(memory),
            asked: Vec::new(),
            handles: Vec::new(),
            patterns: Vec::new(),
            sent: Vec::new(),
            packets: VecDeque::new(),
            rtrs: VecDeque::new(),
            choice: Rendezvous::Speculative,
        }
    }

    /// Creates a pair with an open envelope for each tag below 3: both sides have seen one message
    /// of it.
    fn open(memory: Counted) -> Self {
        let mut pair = Self::new(memory);
        for tag in 0..3 {
            pair.send(tag);
            pair.deliver();
            assert_eq!(pair.recv(exact(tag)), None);
        }
        pair
    }

    /// Receives into a large buffer and returns the turn that the receive asks for.
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
            RndvStart::Rts(turn) => Packet::Rts(turn),
            RndvStart::Write { turn, target } => Packet::RtrAck(turn, target),
        };
        self.push(packet, tag)
    }

    /// Delivers the next RTR to the sender.
    fn hear(&mut self) -> Option<RtrOutcome> {
        let (tag, turn, receive) = self.rtrs.pop_front()?;
        Some(self.sender.rtr(PEER, key(tag), turn, receive))
    }

    /// Delivers the next packet to the receiver and returns the receive that its message meets.
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

    /// Delivers everything in flight.
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
