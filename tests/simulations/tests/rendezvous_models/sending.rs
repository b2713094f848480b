//! The ranks that send, as an engine does it.

use core::mem;
use std::sync::Arc;

use strait_core::rndv::{Rendezvous, RndvStart, Turn};
use strait_core::wire::Key;

use crate::program::{CONTEXT, Step, Way};
use crate::state::{Body, Broken, Claim, Message, Packet, Ruled, Sending, State, Word};

/// The number by which senders know the receiver.
pub(crate) const RECEIVER: u32 = 9;

/// Returns the key of a tag.
pub(crate) const fn key(tag: u32) -> Key {
    Key::new(CONTEXT, tag)
}

impl<R: Ruled> Sending<R> {
    /// Looks for marks of eager messages, before a large one.
    fn look(&mut self, key: Key) {
        self.looks += 1;
        if mem::take(&mut self.marked) {
            self.found = self.looks;
        }
        let (found, number) = (self.found, self.looks);
        let machine = Arc::make_mut(&mut self.machine);
        machine.call(move |machine| machine.catch_up(RECEIVER, key, found, number));
    }
}

impl<R: Ruled> State<R> {
    /// Begins the next send.
    pub(crate) fn send(&mut self, number: usize) {
        let on_node = self.is_on_node();
        let sender = &mut self.senders[number];
        let send = self.program.sends[number][sender.begun];
        let message = Message { sender: number as u32, number: sender.begun, tag: send.tag };
        sender.begun += 1;
        let body = match send.way {
            Way::Eager => {
                // On a node an eager message leaves a mark, one for all tags.
                sender.marked = on_node;
                if !on_node {
                    let machine = Arc::make_mut(&mut sender.machine);
                    machine.call(move |machine| machine.eager(RECEIVER, key(send.tag)));
                }
                Body::Eager
            }
            Way::Rendezvous => self.start(message, self.program.choice),
            Way::Plain => self.start(message, Rendezvous::Plain),
        };
        self.expect_use(message, body);
        if send.way == Way::Rendezvous {
            self.judge(message, body);
        }
        let sender = &mut self.senders[number];
        if let Body::Rts(_) = body {
            sender.announced.push(message.number);
        }
        sender.out.push_back(Packet::Message(message, body));
    }

    fn start(&mut self, message: Message, choice: Rendezvous) -> Body {
        let key = key(message.tag);
        let on_node = self.is_on_node();
        let sender = &mut self.senders[message.sender as usize];
        if on_node {
            sender.look(key);
        }
        let machine = Arc::make_mut(&mut sender.machine);
        let start = machine.call(move |machine| machine.start(RECEIVER, key, choice));
        let (turn, target) = match start {
            RndvStart::Rts(turn) => return Body::Rts(turn),
            RndvStart::Write { turn, target } => (turn, target),
        };
        if self.use_rtr(message, target) {
            return Body::RtrAck(turn, target);
        }
        let machine = Arc::make_mut(&mut self.senders[message.sender as usize].machine);
        Body::Rts(machine.call(move |machine| machine.refused(RECEIVER, key, choice)))
    }

    /// Writes into the buffer of `target`. Returns false if its RTR was retracted.
    fn use_rtr(&mut self, message: Message, target: usize) -> bool {
        let on_node = self.is_on_node();
        let receive = &mut self.receives[target];
        if on_node {
            if receive.claim != Claim::Open {
                return false;
            }
            receive.claim = Claim::Taken;
        }
        // The buffer is claimed from the posting of its receive until the receive is cancelled or
        // matches a message.
        let is_claimed = receive.is_posted && receive.written.is_none();
        receive.written = Some(message);
        self.require(is_claimed, Broken::Data);
        true
    }

    /// Requires that an RTR that has arrived is used, in a steady program.
    fn expect_use(&mut self, message: Message, body: Body) {
        if !self.program.is_steady(R::RECORDS) {
            return;
        }
        let Message { sender, number, tag } = message;
        let before = self.program.sends[sender as usize][..number].iter();
        let place = before.filter(|send| send.tag == tag).count();
        let is_of = |step: &Step| {
            matches!(step, Step::Receive { pattern, .. }
                if pattern.source == sender && pattern.tag == tag)
        };
        let of_envelope = (0..self.receives.len()).filter(|step| is_of(&self.program.steps[*step]));
        let receive = of_envelope.map(|receive| &self.receives[receive]).nth(place);
        let could = receive.is_some_and(|receive| receive.heard);
        self.require(!could || matches!(body, Body::RtrAck(..)), Broken::Use);
    }

    /// Takes the next word of the receiver.
    pub(crate) fn hear(&mut self, number: usize) {
        let is_judged = self.program.is_judged(R::RECORDS);
        let sender = &mut self.senders[number];
        let Some(word) = sender.incoming.pop_front() else { return };
        match word {
            Word::Rtr { tag, turn, receive } => {
                let machine = Arc::make_mut(&mut sender.machine);
                machine.call(move |machine| machine.rtr(RECEIVER, key(tag), turn, receive));
                if is_judged {
                    sender.judged[tag as usize].heard(turn);
                }
                self.receives[receive].heard = true;
            }
            Word::Retract { tag, turn } => {
                let machine = Arc::make_mut(&mut sender.machine);
                machine.call(move |machine| machine.retract(RECEIVER, key(tag), turn));
                if R::ANSWERS {
                    let place = if R::ANSWERS_IN_ORDER { sender.out.len() } else { 0 };
                    sender.out.insert(place, Packet::Retracted);
                }
            }
            Word::Done(message) => sender.announced.retain(|number| *number != message),
        }
    }

    /// Returns the RTRs, with their receives, that further messages of an envelope would use, in
    /// order.
    pub(crate) fn still_usable(&self, sender: usize, tag: u32) -> Vec<(Turn, usize)> {
        let mut sender = self.senders[sender].clone();
        if self.is_on_node() {
            sender.look(key(tag));
        }
        let machine = Arc::make_mut(&mut sender.machine);
        let mut usable = Vec::new();
        while let RndvStart::Write { turn, target } =
            machine.call(move |machine| machine.start(RECEIVER, key(tag), Rendezvous::Speculative))
        {
            // RTRs from the first retracted one on are not used.
            if self.is_on_node() && self.receives[target].claim != Claim::Open {
                break;
            }
            usable.push((turn, target));
        }
        usable
    }
}
