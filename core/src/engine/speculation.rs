//! The speculative rendezvous of `[SpecRndv09]` in the engine: which receives ask, and which
//! messages use the RTRs. Its rules are in [`crate::rndv`]. The path to the peer decides how an RTR
//! travels and what it opens.

use super::Rtrs;
use super::outbound::Course;
use super::peer::Peer;
use super::request::RequestState;
use super::rtrs::PostedRtr;
use super::rtrs::Wanted;
use super::{Engine, Owner};
use crate::buffer::Cursor;
use crate::lmt::LmtSender;
use crate::matching::{ANY_SOURCE, ANY_TAG, Pattern};
use crate::memory::{Memory, OutOfMemory};
use crate::rndv::{EnvelopeProfile, Rendezvous, RndvStart};
use crate::wire::{Key, Turn};

impl<M: Memory + Clone> Engine<M> {
    /// Returns counts of RTRs.
    #[must_use]
    pub const fn rtrs(&self) -> Rtrs {
        self.negotiation.counts()
    }

    /// Returns how large messages of `context` are negotiated.
    #[must_use]
    pub fn rendezvous(&self, context: u32) -> Rendezvous {
        self.negotiation.choice_of(context).unwrap_or(self.tuning.rendezvous)
    }

    /// Chooses how large messages of `context` are negotiated from now on. `None` selects the
    /// choice for all contexts ([`super::Tuning::rendezvous`]).
    ///
    /// Ranks need not agree. Each own choice makes large messages of any context slower by one
    /// comparison.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the choice is unchanged.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.6, static adaptation.
    pub fn choose_rendezvous(
        &mut self,
        context: u32,
        choice: Option<Rendezvous>,
    ) -> Result<(), OutOfMemory> {
        self.negotiation.choose(context, choice)
    }

    /// Begins to record the profile of this run: the use of the RTRs of each envelope.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.6, static adaptation.
    pub fn record_profile(&mut self) {
        self.negotiation.record_profile(self.buffers.memory());
    }

    /// Returns the profile of this run so far, in no order. It is empty unless it is recorded.
    pub fn profile(&self) -> impl Iterator<Item = EnvelopeProfile> {
        self.negotiation.profile()
    }

    /// Follows the profile of an earlier run. Call it before the first operation.
    ///
    /// An envelope of which enough RTRs were used ([`EnvelopeProfile::speculates`]) speculates from
    /// its first message on. Another envelope of the profile does not speculate. Ranks need not
    /// have the same profile.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing is changed.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.6, static adaptation.
    pub fn follow_profile(&mut self, profile: &[EnvelopeProfile]) -> Result<(), OutOfMemory> {
        self.negotiation.follow_profile(profile)
    }

    /// Returns whether a call of [`Engine::take_in`] is worth its time before a message of `length`
    /// bytes is sent, since an RTR may have come (`[SpecRndv09]` §3.2.2).
    ///
    /// It is not while the RTRs of the envelope are stopped (§3.6). Nor is it for a peer on this
    /// node that does not ask. The call would take in the peer's RTS, and this rank would start to
    /// move that message alone, before its own message leaves.
    #[must_use]
    pub fn may_be_asked(&self, destination: u32, key: Key, length: usize) -> bool {
        self.tuning.may_announce(length)
            && self.rendezvous(key.context()) != Rendezvous::Plain
            && self.peers.get(destination as usize).is_some_and(|peer| peer.large.asks_lately())
            && self.negotiation.speculates(destination, key)
    }

    /// Returns whether a call of [`Engine::take_in`] is worth its time before a receive into
    /// `length` bytes, since an RTS may have come (§3.1.1). The source may be any rank, and RTRs
    /// may be stopped. The call is not worthwhile before a receive that sends no RTR and waits,
    /// since that polls at once. Nor is it before the receive of a message that comes in parcels:
    /// it would take the messages behind that one before their receives are posted. An embedder
    /// that names its messages takes in what has arrived itself.
    #[must_use]
    pub fn may_be_announced(&self, pattern: &Pattern, length: usize, owner: Owner) -> bool {
        let source = self.peers.get(pattern.source as usize);
        let is_far = source.is_some_and(Peer::is_remote);
        let choice = self.rendezvous(pattern.context);
        let by_parcels = choice == Rendezvous::Adaptive
            && self.tuning.suits_parcels(length)
            && source.is_none_or(|peer| peer.parcels.may_bring(length));
        self.tuning.may_announce(length)
            && choice != Rendezvous::Plain
            && !self.negotiation.is_named(Key::new(pattern.context, pattern.tag))
            && self.negotiation.is_announced_to()
            && (is_far || owner != Owner::BLOCKING && !by_parcels)
    }

    /// Returns whether a large message of this rank is under way, or a receive waits that has sent
    /// an RTR.
    #[inline]
    #[must_use]
    pub const fn is_transferring(&self) -> bool {
        !self.transfers.is_empty()
    }

    /// Starts the next large message to `destination` with this key: by an RTR, or by an RTS with
    /// this turn.
    pub(super) fn start(
        &mut self,
        destination: u32,
        key: Key,
        data: Cursor,
    ) -> Result<(LmtSender, Course), Option<Turn>> {
        let choice = self.rendezvous(key.context());
        let eager = &mut self.peers[destination as usize].eager;
        match self.negotiation.start_on_node(destination, key, eager, choice) {
            RndvStart::Rts(turn) => {
                self.peers[destination as usize].large.count_unasked();
                Err(turn)
            }
            RndvStart::Write { target, .. } => {
                let used = match target {
                    Wanted::Here(rtr) => self.use_rtr(destination, &rtr, data),
                    // No rank on this node sends such an RTR.
                    Wanted::There(_) => None,
                };
                used.ok_or_else(|| self.negotiation.refused(destination, key, choice))
            }
        }
    }

    /// Returns the turn for which a receive that is about to be posted may ask.
    pub(super) fn may_ask(
        &mut self,
        pattern: &Pattern,
        buffer: &Cursor,
        owner: Owner,
    ) -> Option<Turn> {
        let Pattern { context, source, tag } = *pattern;
        // A matched message may come back, and a receive that has asked for another could not take
        // it.
        if self.unexpected.has_matched()
            || source == ANY_SOURCE
            || tag == ANY_TAG
            || self.negotiation.is_named(Key::new(context, tag))
            || !self.predicts(pattern, buffer, owner)
        {
            return None;
        }
        let ahead = self.posted.ahead_of(pattern).map(|id| self.asked(id).map(|asked| asked.turn));
        self.negotiation.may_request(pattern, ahead)
    }

    /// Returns whether a receive from a certain source predicts a large message to which an RTR is
    /// of use.
    pub(super) fn predicts(&self, pattern: &Pattern, buffer: &Cursor, owner: Owner) -> bool {
        let Pattern { context, source, .. } = *pattern;
        if !self.tuning.may_announce(buffer.remaining())
            || self.rendezvous(context) == Rendezvous::Plain
        {
            return false;
        }
        let peer = &self.peers[source as usize];
        let (unasked, pointless) = match peer.is_remote() {
            // A receive that waits inside the library answers an RTS at once. Parcels need neither
            // RTS nor RTR.
            false => (
                self.tuning.eager_max,
                owner == Owner::BLOCKING
                    || self.rendezvous(context) == Rendezvous::Adaptive
                        && self.tuning.suits_parcels(buffer.remaining())
                        && peer.parcels.may_bring(buffer.remaining()),
            ),
            // From another node that takes its time. A buffer of several parts is read part after
            // part.
            true => (self.tuning.stream_max, buffer.in_one_part().is_none()),
        };
        // A short buffer predicts a short message.
        !pointless && buffer.remaining() > unasked
    }

    /// Returns the RTR of the receive `id`, if it is posted and has sent one.
    pub(super) fn asked(&self, id: u32) -> Option<PostedRtr> {
        match self.requests.get(id) {
            Some(RequestState::Posted { asked, .. }) => asked,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use super::*;
    use crate::buffer::Part;
    use crate::engine::testing::with_segment;
    use crate::engine::{Received, Tuning};
    use crate::memory::counted::Counted;
    use crate::rndv::EnvelopeSide;

    /// Returns whether a receive of so many bytes asks for its message.
    fn asks(rendezvous: Rendezvous, parcel_max: usize, bytes: usize) -> bool {
        let mut asked = false;
        with_segment(2, |segment| {
            let tuning = Tuning { rendezvous, parcel_max, ..Tuning::default() };
            let mut engine = Engine::new(Counted::default(), *segment, 1, tuning).unwrap();
            let (side, used) = (EnvelopeSide::Receiver, 9);
            let envelope = EnvelopeProfile { side, peer: 0, context: 0, tag: 7, rtrs: used, used };
            engine.follow_profile(&[envelope]).unwrap();
            let mut memory = std::vec![0_u8; bytes];
            let part = Part { base: NonNull::from(&mut memory[..]).cast(), length: bytes };
            let pattern = Pattern { context: 0, source: 0, tag: 7 };
            // SAFETY: no message comes, and the memory outlives the engine.
            let posted =
                unsafe { engine.irecv(pattern, Cursor::contiguous(part), Owner::UNSCOPED) };
            let Ok(Received::Pending(id)) = posted else { panic!("{posted:?}") };
            asked = engine.asked(id.0).is_some();
        });
        asked
    }

    #[test]
    fn a_receive_asks_for_no_message_that_suits_parcels() {
        let kib = 1024;
        assert!(!asks(Rendezvous::Adaptive, 256 * kib, 16 * kib));
        assert!(!asks(Rendezvous::Adaptive, 256 * kib, 256 * kib));
        assert!(asks(Rendezvous::Adaptive, 256 * kib, 257 * kib));
        assert!(asks(Rendezvous::Adaptive, 0, 16 * kib), "without parcels");
        assert!(asks(Rendezvous::Adaptive, 512 * kib, 257 * kib), "it answers nothing");
        assert!(asks(Rendezvous::Speculative, 256 * kib, 16 * kib), "it asks in any case");
        assert!(!asks(Rendezvous::Plain, 256 * kib, 257 * kib));
    }
}
