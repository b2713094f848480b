//! Large messages on their way out: announced by an RTS, and read by the receiver where they lie. A
//! message to a receiver that came first is written to the receiver's buffer instead
//! (`rndv_write`).
//!
//! An RTS is an offer that gives the address of the message. The answer is *done* when the receiver
//! has read what it wants. Or it is a *CTS*, and this rank writes the message. Otherwise it is a
//! pull request, and the message goes through the stream.
//!
//! Between RTS and answer the peer's device may read the user's memory at any time. So a send that
//! is dropped meanwhile is *retracted*. The receiver answers that it has not started to read and
//! will not, or its earlier answer is on its way. A rank inside the library answers at once.
//!
//! Source: `[SpecRndv09]` §3.1.1, sender first.

use super::Channel;
use super::announcement::Announced;
use super::exposure::Exposure;
use crate::buffer::Cursor;
use crate::engine::request::{OutgoingMessage, RequestState, SendStage};
use crate::engine::rtrs::Wanted;
use crate::engine::{Engine, Status, StillClaimed};
use crate::memory::{Memory, OutOfMemory};
use crate::rndv::RndvStart;
use crate::wire::{DeferredMessageId, StreamHead};

impl<M: Memory + Clone> Engine<M> {
    /// Removes the oldest send to `destination` from the line, to wait until its message is read or
    /// pulled. Returns its announcement. That gives the address of the message if the message is
    /// `large`, and registered by the device; or it names the RTR that the message uses.
    pub(super) fn announce(
        &mut self,
        destination: u32,
        place: u32,
        large: bool,
        channel: &mut impl Channel,
    ) -> Option<StreamHead> {
        let Some(RequestState::Sending { message, detached, .. }) = self.requests.get(place) else {
            return None;
        };
        // Fallible work comes first: the answer of `start` is binding.
        let data = Some(message.data).filter(|_| large && detached.is_none());
        let exposure = data.and_then(|data| self.expose(data, channel));
        self.leave_line(destination);
        let key = message.key;
        let Some(exposure) = exposure else {
            self.negotiation.eager(destination, key);
            let offer = self.next_offer(destination, place, message.total);
            let stage = self.offered(destination, &offer);
            self.set_stage(place, stage);
            return Some(StreamHead::Offer { key, offer });
        };
        let choice = self.rendezvous(key.context());
        let turn = match self.negotiation.start_remote(destination, key, choice) {
            RndvStart::Rts(turn) => turn,
            RndvStart::Write { target: Wanted::There(there), .. } => {
                let to = (destination, place);
                return self.begin_writing(to, &message, exposure, there, channel).ok();
            }
            // No rank on another node sends such an RTR.
            RndvStart::Write { target: Wanted::Here(_), .. } => {
                self.negotiation.refused(destination, key, choice)
            }
        };
        let offer = self.next_offer(destination, place, message.total);
        self.offered(destination, &offer);
        let announced = Announced { destination, name: offer.name(), exposure, retracting: false };
        // There is a place: `expose` has reserved it.
        let announced = self.network.announced.insert(announced).ok()?;
        self.set_stage(place, SendStage::Exposed { announced });
        Some(StreamHead::Rts { key, offer, from: exposure.address, turn })
    }

    /// Lets peers read `data`, and reserves memory for every way in which that may end.
    fn expose(&mut self, data: Cursor, channel: &mut impl Channel) -> Option<Exposure> {
        self.network.announced.reserve().ok()?;
        self.network.writings.reserve().ok()?;
        self.network.controls.reserve().ok()?;
        let stream_max = self.tuning.stream_max;
        // SAFETY: the message is claimed (contract of `isend`) until its request is over. That is
        // after the receiver has stopped reading and has reported it, or after the stream is
        // closed. The registrations are released before.
        unsafe { self.network.exposed.expose(data, stream_max, &self.buffers, channel) }
    }

    pub(super) fn set_stage(&mut self, place: u32, stage: SendStage) {
        if let Some(message) = self.requests.outgoing_mut(place) {
            message.stage = stage;
        }
    }

    /// Finds the message that was offered to `peer` under this name, and whether it was announced.
    pub(super) fn find_offer(
        &self,
        peer: u32,
        name: DeferredMessageId,
    ) -> Option<(OutgoingMessage, Option<u32>)> {
        let message = self.requests.outgoing(name.place)?;
        match message.stage {
            SendStage::Offered { destination, number } => {
                ((destination, number) == (peer, name.number)).then_some((message, None))
            }
            SendStage::Exposed { announced: number } => {
                let announced = self.network.announced.get(number)?;
                let found = announced.destination == peer && announced.name == name;
                found.then_some((message, Some(number)))
            }
            _ => None,
        }
    }

    /// Ends the registration of a message that the peer reads no more. The message is then like one
    /// that was offered.
    fn hide(&mut self, number: u32, channel: &mut impl Channel) {
        let Some(announced) = self.network.announced.remove(number) else { return };
        let Announced { destination, name, exposure, .. } = announced;
        let DeferredMessageId { place, number } = name;
        self.network.exposed.end(exposure, &self.buffers, channel);
        self.set_stage(place, SendStage::Offered { destination, number });
    }

    /// Handles the report that the peer has read a message. Returns false if that is impossible.
    pub(super) fn take_done(
        &mut self,
        peer: u32,
        name: DeferredMessageId,
        channel: &mut impl Channel,
    ) -> bool {
        let Some((message, Some(number))) = self.find_offer(peer, name) else { return false };
        if let Some(announced) = self.network.announced.get(number) {
            self.network.went.scattered += u64::from(announced.exposure.list().is_some());
        }
        self.hide(number, channel);
        self.peers[peer as usize].offers.answered();
        let status = Status { source: peer, tag: message.key.tag(), bytes: message.total };
        self.end_send(name.place, Ok(status));
        true
    }

    /// Handles the pull request for a message. Returns false if the message was not offered or was
    /// pulled before.
    pub(super) fn take_call_of(
        &mut self,
        peer: u32,
        name: DeferredMessageId,
        channel: &mut impl Channel,
    ) -> bool {
        let Some((_, announced)) = self.find_offer(peer, name) else { return false };
        if let Some(number) = announced {
            self.hide(number, channel);
        }
        self.answer_call(peer, name.place, name.number)
    }

    /// Handles the report that the peer does not read a message any more. Returns false if the peer
    /// was not asked.
    pub(super) fn take_retracted(
        &mut self,
        peer: u32,
        name: DeferredMessageId,
        channel: &mut impl Channel,
    ) -> bool {
        let Some((_, Some(number))) = self.find_offer(peer, name) else { return false };
        let asked =
            self.network.announced.get(number).is_some_and(|announced| announced.retracting);
        if asked {
            self.hide(number, channel);
        }
        asked
    }

    /// Asks the peer not to read the message any more. Until it has answered, the claim stays.
    pub(in crate::engine) fn retract(&mut self, number: u32) -> StillClaimed {
        let Some(&Announced { destination, name, retracting, .. }) =
            self.network.announced.get(number)
        else {
            return StillClaimed::Moving { peer: self.rank };
        };
        if !retracting {
            match self.reserve_word() {
                Ok(word) => self.say(destination, word, StreamHead::Retract(name)),
                Err(error) => return StillClaimed::OutOfMemory(error),
            }
            if let Some(announced) = self.network.announced.get_mut(number) {
                announced.retracting = true;
            }
        }
        StillClaimed::Moving { peer: destination }
    }

    /// Ends the registrations of all messages that `peer` might have read. Its streams are closed.
    pub(super) fn hide_all(&mut self, peer: u32, channel: &mut impl Channel) {
        let mut from = 0;
        while let Some((number, announced)) = self.network.announced.next_from(from) {
            from = number + 1;
            if announced.destination == peer {
                self.hide(number, channel);
            }
        }
    }

    /// Handles the retraction of an announcement by its sender. If the message has met no receive,
    /// it is then like one that was offered. Otherwise the answer is on its way.
    pub(super) fn take_retract(
        &mut self,
        source: u32,
        name: DeferredMessageId,
    ) -> Result<(), OutOfMemory> {
        let Some((number, offer)) = self.unexpected.find_exposed(source, name) else {
            return Ok(());
        };
        let word = self.reserve_word()?;
        self.unexpected.hide(number, offer);
        self.say(source, word, StreamHead::Retracted(name));
        Ok(())
    }
}
