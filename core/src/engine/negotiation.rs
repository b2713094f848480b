//! The negotiation of large messages: which receives ask for theirs, and which messages use an RTR.
//! The rules are in [`crate::rndv`]; this is their state for all peers.

use super::Rtrs;
use super::eager_flags::EagerFlags;
use super::rendezvous_choices::RendezvousChoices;
use super::rtrs::Wanted;
use crate::matching::{Ahead, Pattern};
use crate::memory::{Memory, OutOfMemory};
use crate::rndv::{
    EnvelopeProfile, EnvelopeSide, NamedRtrs, PlainEnvelopes, ProfileRecorder, Rendezvous,
    RndvStart, RtrReceiver, RtrSender,
};
use crate::wire::{Key, Turn};

/// Both sides of the negotiation, and what became of the RTRs.
#[derive(Debug)]
pub(super) struct Negotiation<M: Memory> {
    /// The RTRs that receives of this rank may send.
    receiver: RtrReceiver<M>,
    /// The RTRs that the receivers of this rank's messages have sent.
    sender: RtrSender<Wanted, M>,
    /// The context of named messages, and the RTRs for those of this rank.
    named_context: Option<u32>,
    named: NamedRtrs<Wanted, M>,
    choices: RendezvousChoices<M>,
    /// The envelopes without speculation, by the profile of an earlier run.
    plain: PlainEnvelopes<M>,
    /// The profile of this run, if it is recorded.
    recorder: Option<ProfileRecorder<M>>,
    /// Number of looks at Eager-flags so far.
    looks: u64,
    counts: Rtrs,
}

impl<M: Memory + Clone> Negotiation<M> {
    pub(super) fn new(memory: &M) -> Self {
        Self {
            receiver: RtrReceiver::new(memory.clone()),
            sender: RtrSender::new(memory.clone()),
            named_context: None,
            named: NamedRtrs::new(memory.clone()),
            choices: RendezvousChoices::new(memory.clone()),
            plain: PlainEnvelopes::new(memory.clone()),
            recorder: None,
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

    /// Gives each message of `context` a name: no two of a pair have the same key.
    pub(super) const fn name_messages(&mut self, context: u32) {
        self.named_context = Some(context);
    }

    /// Returns whether the message has a name.
    pub(super) fn is_named(&self, key: Key) -> bool {
        self.named_context == Some(key.context())
    }

    /// Begins to record the profile of this run.
    pub(super) fn record_profile(&mut self, memory: &M) {
        self.recorder.get_or_insert_with(|| ProfileRecorder::new(memory));
    }

    /// Returns the profile of this run so far.
    pub(super) fn profile(&self) -> impl Iterator<Item = EnvelopeProfile> {
        self.recorder.iter().flat_map(ProfileRecorder::envelopes)
    }

    /// Follows the profile of an earlier run.
    pub(super) fn follow_profile(
        &mut self,
        profile: &[EnvelopeProfile],
    ) -> Result<(), OutOfMemory> {
        self.plain.replace(profile)?;
        for envelope in profile.iter().filter(|envelope| envelope.speculates()) {
            let EnvelopeProfile { side, peer, context, tag, .. } = *envelope;
            let key = Key::new(context, tag);
            match side {
                EnvelopeSide::Sender => self.sender.open_ahead(peer, key),
                EnvelopeSide::Receiver => self.receiver.open_ahead(peer, key),
            }
        }
        Ok(())
    }

    /// Returns counts of RTRs.
    pub(super) const fn counts(&self) -> Rtrs {
        let (usage, named) = (self.sender.usage(), self.counts);
        Rtrs {
            heard: usage.heard + named.heard,
            used: usage.used + named.used,
            stopped: usage.stopped,
            ..self.counts
        }
    }

    /// Returns whether an RTR for the next message of the envelope is here.
    pub(super) fn is_asked(&self, destination: u32, key: Key) -> bool {
        self.sender.is_asked(destination, key) || self.named.is_asked(destination, key)
    }

    /// Returns whether RTRs for the envelope are not stopped.
    pub(super) fn speculates(&self, destination: u32, key: Key) -> bool {
        self.is_named(key) || self.sender.speculates(destination, key)
    }

    /// Starts a large message to a rank of the node, with the Eager-flags of that rank.
    pub(super) fn start_on_node(
        &mut self,
        destination: u32,
        key: Key,
        eager: &mut EagerFlags,
        choice: Rendezvous,
    ) -> RndvStart<Wanted> {
        if self.is_named(key) {
            return self.start_named(destination, key);
        }
        self.looks += 1;
        let found = eager.look(key, self.looks);
        self.sender.catch_up(destination, key, found, self.looks);
        self.start_remote(destination, key, choice)
    }

    /// Starts a large message to a rank of another node.
    pub(super) fn start_remote(
        &mut self,
        destination: u32,
        key: Key,
        choice: Rendezvous,
    ) -> RndvStart<Wanted> {
        if self.is_named(key) {
            return self.start_named(destination, key);
        }
        let is_plain = self.plain.contains(destination, key);
        let choice = if is_plain { Rendezvous::Plain } else { choice };
        let start = self.sender.start(destination, key, choice);
        if let (RndvStart::Write { .. }, Some(recorder)) = (&start, &mut self.recorder) {
            recorder.used(EnvelopeSide::Sender, destination, key);
        }
        start
    }

    fn start_named(&mut self, destination: u32, key: Key) -> RndvStart<Wanted> {
        match self.named.take(destination, key) {
            Some(target) => {
                self.counts.used += 1;
                RndvStart::Write { turn: Turn::FIRST, target }
            }
            None => RndvStart::Rts(None),
        }
    }

    /// Returns the turn of a message that started by an RTR and could not use it.
    pub(super) fn refused(
        &mut self,
        destination: u32,
        key: Key,
        choice: Rendezvous,
    ) -> Option<Turn> {
        if self.is_named(key) {
            self.counts.used -= 1;
            return None;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.unused(EnvelopeSide::Sender, destination, key);
        }
        self.sender.refused(destination, key, choice)
    }

    /// Notes that a message other than a large one goes to a rank of another node.
    pub(super) fn eager(&mut self, destination: u32, key: Key) {
        self.sender.eager(destination, key);
    }

    /// Handles an RTR that has come.
    pub(super) fn take_rtr(&mut self, source: u32, key: Key, turn: Turn, wanted: Wanted) {
        if self.is_named(key) {
            self.counts.heard += 1;
            return self.named.rtr(source, key, wanted);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.rtr(EnvelopeSide::Sender, source, key);
        }
        self.sender.rtr(source, key, turn, wanted);
    }

    /// Handles the retraction of an RTR that has come.
    pub(super) fn take_retraction(&mut self, source: u32, key: Key, turn: Turn) {
        let _retracted = self.named.take(source, key);
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
        if self.is_named(key) {
            return;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.used(EnvelopeSide::Receiver, source, key);
        }
        self.receiver.rtr_ack(source, key, turn);
    }

    /// Counts an RTR that left.
    pub(super) fn count_sent(&mut self, destination: u32, key: Key) {
        self.counts.sent += 1;
        if !self.is_named(key)
            && let Some(recorder) = &mut self.recorder
        {
            recorder.rtr(EnvelopeSide::Receiver, destination, key);
        }
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
        self.named.forget(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::super::network::There;
    use super::*;
    use crate::memory::counted::Counted;

    const KEY: Key = Key::new(0, 7);

    #[test]
    fn the_fates_of_rtrs_are_counted() {
        let mut negotiation = Negotiation::new(&Counted::default());
        for _ in 0..3 {
            negotiation.count_sent(1, KEY);
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

    /// Takes an RTR for the first turn of the envelope, and starts a message of it.
    fn ask_and_start(negotiation: &mut Negotiation<Counted>) -> RndvStart<Wanted> {
        let turn = Turn::FIRST;
        negotiation.take_rtr(1, KEY, turn, Wanted::There(There::anywhere(turn)));
        negotiation.start_remote(1, KEY, Rendezvous::Adaptive)
    }

    fn envelope(rtrs: u64, used: u64) -> EnvelopeProfile {
        let (context, tag) = (KEY.context(), KEY.tag());
        EnvelopeProfile { side: EnvelopeSide::Sender, peer: 1, context, tag, rtrs, used }
    }

    #[test]
    fn an_envelope_follows_its_profile_from_its_first_message() {
        for (rtrs, used, speculates) in [(5, 5, true), (5, 1, false)] {
            let mut negotiation = Negotiation::new(&Counted::default());
            negotiation.follow_profile(&[envelope(rtrs, used)]).unwrap();
            let start = ask_and_start(&mut negotiation);
            assert_eq!(matches!(start, RndvStart::Write { .. }), speculates, "{start:?}");
            let stopped = matches!(start, RndvStart::Rts(None));
            assert_eq!(stopped, !speculates, "{start:?}");
        }
    }

    #[test]
    fn the_profile_of_a_run_counts_rtrs_and_their_use() {
        let mut negotiation = Negotiation::new(&Counted::default());
        assert_eq!(negotiation.profile().count(), 0);
        negotiation.record_profile(&Counted::default());
        negotiation.follow_profile(&[envelope(1, 1)]).unwrap();
        ask_and_start(&mut negotiation);
        assert!(negotiation.profile().eq([envelope(1, 1)]));
        negotiation.refused(1, KEY, Rendezvous::Adaptive);
        assert!(negotiation.profile().eq([envelope(1, 0)]));
        negotiation.count_sent(2, KEY);
        negotiation.take_rtr_ack(2, KEY, Turn::FIRST);
        let receiver = EnvelopeProfile { side: EnvelopeSide::Receiver, peer: 2, ..envelope(1, 1) };
        assert!(negotiation.profile().any(|envelope| envelope == receiver));
    }
}
