//! The negotiation of large messages: which receives ask for theirs, and which messages use an RTR.
//! The rules are in [`crate::rndv`]; this is their state for all peers.

use super::Rtrs;
use super::eager_flags::EagerFlags;
use super::rendezvous_choices::RendezvousChoices;
use super::rtrs::Wanted;
use crate::matching::{Ahead, Pattern};
use crate::memory::{Memory, OutOfMemory};
use crate::rndv::{Rendezvous, RndvStart, RtrReceiver, RtrSender};
use crate::wire::{Key, Turn};

/// Both sides of the negotiation, and what became of the RTRs.
#[derive(Debug)]
pub(super) struct Negotiation<M: Memory> {
    /// The RTRs that receives of this rank may send.
    receiver: RtrReceiver<M>,
    /// The RTRs that the receivers of this rank's messages have sent.
    sender: RtrSender<Wanted, M>,
    choices: RendezvousChoices<M>,
    /// Number of looks at Eager-flags so far.
    looks: u64,
    counts: Rtrs,
}

impl<M: Memory + Clone> Negotiation<M> {
    pub(super) fn new(memory: &M) -> Self {
        Self {
            receiver: RtrReceiver::new(memory.clone()),
            sender: RtrSender::new(memory.clone()),
            choices: RendezvousChoices::new(memory.clone()),
            looks: 0,
            counts: Rtrs::default(),
        }
    }

    /// Returns the choice of `context`, or `None` if it has none of its own.
    pub(super) fn choice_of(&self, context: u32) -> Option<Rendezvous> {
        self.choices.of(context)
    }

    /// Replaces the choice of `context`.
    pub(super) fn choose(
        &mut self,
        context: u32,
        choice: Option<Rendezvous>,
    ) -> Result<(), OutOfMemory> {
        self.choices.set(context, choice)
    }

    /// Returns counts of RTRs.
    pub(super) const fn counts(&self) -> Rtrs {
        let usage = self.sender.usage();
        Rtrs { heard: usage.heard, used: usage.used, stopped: usage.stopped, ..self.counts }
    }

    /// Returns whether an RTR for the next message of the envelope is here.
    pub(super) fn is_asked(&self, destination: u32, key: Key) -> bool {
        self.sender.is_asked(destination, key)
    }

    /// Returns whether RTRs for the envelope are not stopped.
    pub(super) fn speculates(&self, destination: u32, key: Key) -> bool {
        self.sender.speculates(destination, key)
    }

    /// Starts a large message to a rank of the node, with the Eager-flags of that rank.
    pub(super) fn start_on_node(
        &mut self,
        destination: u32,
        key: Key,
        eager: &mut EagerFlags,
        choice: Rendezvous,
    ) -> RndvStart<Wanted> {
        self.looks += 1;
        let found = eager.look(key, self.looks);
        self.sender.catch_up(destination, key, found, self.looks);
        self.sender.start(destination, key, choice)
    }

    /// Starts a large message to a rank of another node.
    pub(super) fn start_remote(
        &mut self,
        destination: u32,
        key: Key,
        choice: Rendezvous,
    ) -> RndvStart<Wanted> {
        self.sender.start(destination, key, choice)
    }

    /// Returns the turn of a message that started by an RTR and could not use it.
    pub(super) fn refused(
        &mut self,
        destination: u32,
        key: Key,
        choice: Rendezvous,
    ) -> Option<Turn> {
        self.sender.refused(destination, key, choice)
    }

    /// Notes that a message other than a large one goes to a rank of another node.
    pub(super) fn eager(&mut self, destination: u32, key: Key) {
        self.sender.eager(destination, key);
    }

    /// Handles an RTR that has come.
    pub(super) fn take_rtr(&mut self, source: u32, key: Key, turn: Turn, wanted: Wanted) {
        self.sender.rtr(source, key, turn, wanted);
    }

    /// Handles the retraction of an RTR that has come.
    pub(super) fn take_retraction(&mut self, source: u32, key: Key, turn: Turn) {
        self.sender.retract(source, key, turn);
    }

    /// Returns the turn for which a receive may ask. `ahead` says which receive is ahead of it.
    pub(super) fn may_request(
        &self,
        pattern: &Pattern,
        ahead: Ahead<Option<Turn>>,
    ) -> Option<Turn> {
        self.receiver.may_request(pattern, ahead)
    }

    /// Returns whether an RTS has come lately.
    pub(super) const fn is_announced_to(&self) -> bool {
        self.receiver.is_announced_to()
    }

    /// Handles an RTS that has come.
    pub(super) fn take_rts(&mut self, source: u32, key: Key, turn: Option<Turn>) {
        self.receiver.rts(source, key, turn);
    }

    /// Handles a message that uses an RTR of this rank.
    pub(super) fn take_rtr_ack(&mut self, source: u32, key: Key, turn: Turn) {
        self.receiver.rtr_ack(source, key, turn);
    }

    /// Counts an RTR that left.
    pub(super) const fn count_sent(&mut self) {
        self.counts.sent += 1;
    }

    /// Counts an RTR that was retracted.
    pub(super) const fn count_retracted(&mut self) {
        self.counts.retracted += 1;
    }

    /// Notes that the RTRs of the envelope that follow are void.
    pub(super) fn mispredicted(&mut self, source: u32, key: Key) {
        self.receiver.mispredicted(source, key);
    }

    /// Notes that a receive with an RTR has met a message that did not use it. `has_turn` tells
    /// whether the message has a turn.
    pub(super) fn missed(&mut self, source: u32, key: Key, has_turn: bool) {
        self.counts.missed += 1;
        if !has_turn {
            self.receiver.mispredicted(source, key);
        }
    }

    /// Forgets a peer that is gone.
    pub(super) fn forget(&mut self, peer: u32) {
        self.receiver.forget(peer);
        self.sender.forget(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    const KEY: Key = Key::new(0, 7);

    #[test]
    fn the_fates_of_rtrs_are_counted() {
        let mut negotiation = Negotiation::new(&Counted::default());
        for _ in 0..3 {
            negotiation.count_sent();
        }
        negotiation.count_retracted();
        negotiation.missed(1, KEY, true);
        negotiation.missed(1, KEY, false);
        let Rtrs { sent, retracted, missed, heard, used, stopped } = negotiation.counts();
        assert_eq!((sent, retracted, missed), (3, 1, 2));
        assert_eq!((heard, used, stopped), (0, 0, 0));
    }

    #[test]
    fn a_message_that_no_rtr_asked_for_starts_with_an_rts() {
        let mut negotiation = Negotiation::new(&Counted::default());
        let mut eager = EagerFlags::default();
        let choice = Rendezvous::default();
        let first = negotiation.start_on_node(1, KEY, &mut eager, choice);
        assert!(matches!(first, RndvStart::Rts(_)));
        assert!(!negotiation.is_asked(1, KEY));
        assert_eq!(negotiation.choice_of(0), None);
        negotiation.choose(0, Some(Rendezvous::Plain)).unwrap();
        assert_eq!(negotiation.choice_of(0), Some(Rendezvous::Plain));
        negotiation.forget(1);
    }
}
