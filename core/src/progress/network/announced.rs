//! Large messages on their way out: announced by an RTS, and read by the receiver where they lie; or written where a receiver that
//! came first wants them ([`super::writing`]).
//!
//! An RTS is an offer that says where the message lies. The answer is *done*, when the receiver has read what it wants; or a call,
//! and then the message goes through the stream. Between RTS and answer the peer's device may read the user's memory at any time. So
//! a send that is dropped meanwhile is *retracted*: the receiver says that it has not begun to read and will not, or its answer
//! is on its way. Whoever is inside the library says so at once.
//!
//! Source: `[SpecRndv09]` §3.1.1, sender first.

use super::Channel;
use crate::hca::{Access, Region, Remote};
use crate::memory::{Memory, OutOfMemory};
use crate::progress::arrive::{Body, Kept};
use crate::progress::request::{Outgoing, Request, Stage};
use crate::progress::speculation::Wanted;
use crate::progress::{Engine, Part, Status, StillClaimed};
use crate::rndv::Start;
use crate::wire::{Name, StreamHead};

/// Number of messages that are registered for their receivers at a time. Further ones are offered without. Some of a device's room
/// for regions is always left, or a receiver that reads this rank's memory before it receives would wait for ever.
const EXPOSED_MAX: u32 = 512;

/// A message that its receiver may read.
#[derive(Clone, Copy, Debug)]
pub(in crate::progress) struct Announced {
    pub(in crate::progress) destination: u32,
    name: Name,
    region: Region,
    /// Whether the peer was asked not to read it any more.
    retracting: bool,
}

impl<M: Memory + Clone> Engine<M> {
    /// Takes the oldest send to `destination` out of the line, to wait until its message is read or called for. What is said of
    /// it: where it lies, if it is `large`, in one part, and the device takes that; or that it uses an RTR.
    pub(super) fn announce(
        &mut self,
        destination: u32,
        place: u32,
        large: bool,
        channel: &mut impl Channel,
    ) -> Option<StreamHead> {
        let Some(Request::Sending { message, detached, .. }) = self.request(place) else {
            return None;
        };
        let part = message.data.in_one_part().filter(|_| large && detached.is_none());
        // Fallible work first: what `start` says binds.
        let exposed = part.and_then(|part| Some((part, self.expose(part, channel)?)));
        self.leave_line(destination);
        let key = message.key;
        let Some((part, region)) = exposed else {
            self.asked_by.eager(destination, key);
            let offer = self.next_offer(destination, place, message.total);
            let stage = self.offered(destination, &offer);
            self.set_stage(place, stage);
            return Some(StreamHead::Offer { key, offer });
        };
        let choice = self.rendezvous(key.context());
        let turn = match self.asked_by.start(destination, key, choice) {
            Start::Rts(turn) => turn,
            Start::Write { target: Wanted::There(there), .. } => {
                let to = (destination, place);
                return self.begin_writing(to, &message, (part, region), there, channel).ok();
            }
            // Nobody on another node sends such an RTR.
            Start::Write { target: Wanted::Here(_), .. } => {
                self.asked_by.refused(destination, key, choice)
            }
        };
        let offer = self.next_offer(destination, place, message.total);
        self.offered(destination, &offer);
        let announced = Announced { destination, name: offer.name(), region, retracting: false };
        // There is a place: `expose` has seen to it.
        let announced = self.announced.insert(announced).ok()?;
        self.set_stage(place, Stage::Exposed { announced });
        // The region may be that of a longer part, which was registered before.
        let from = Remote { address: part.base.addr().get() as u64, key: region.remote_key };
        Some(StreamHead::Rts { key, offer, from, turn })
    }

    /// Lets peers read `part`, and makes room for whatever becomes of it.
    fn expose(&mut self, part: Part, channel: &mut impl Channel) -> Option<Region> {
        if self.announced.len() >= EXPOSED_MAX {
            return None;
        }
        self.announced.reserve().ok()?;
        self.writings.reserve().ok()?;
        self.words.reserve().ok()?;
        let access = Access { remote_read: true, ..Access::LOCAL_READ };
        // SAFETY: the message is claimed (contract of `isend`) until its request is over. That is after the receiver has said that
        // it does not read any more, or after the stream is closed; and the registration is released before.
        unsafe { channel.register(part, access) }
    }

    fn set_stage(&mut self, place: u32, stage: Stage) {
        if let Some(Request::Sending { message, .. }) = self.request_mut(place) {
            message.stage = stage;
        }
    }

    /// The message that was offered to `peer` by this name, and whether it was announced.
    fn find_offer(&self, peer: u32, name: Name) -> Option<(Outgoing, Option<u32>)> {
        let Some(Request::Sending { message, .. }) = self.request(name.place) else { return None };
        match message.stage {
            Stage::Offered { destination, number } => {
                ((destination, number) == (peer, name.number)).then_some((message, None))
            }
            Stage::Exposed { announced: number } => {
                let announced = self.announced.get(number)?;
                let found = announced.destination == peer && announced.name == name;
                found.then_some((message, Some(number)))
            }
            _ => None,
        }
    }

    /// The peer reads the message no more: it is as if it had been offered.
    fn hide(&mut self, number: u32, channel: &mut impl Channel) {
        let Some(announced) = self.announced.remove(number) else { return };
        channel.release(announced.region);
        let Announced { destination, name: Name { place, number }, .. } = announced;
        self.set_stage(place, Stage::Offered { destination, number });
    }

    /// The peer has read a message. False: it cannot have.
    pub(super) fn take_done(&mut self, peer: u32, name: Name, channel: &mut impl Channel) -> bool {
        let Some((message, Some(number))) = self.find_offer(peer, name) else { return false };
        self.hide(number, channel);
        self.peers[peer as usize].offers -= 1;
        let status = Status { source: peer, tag: message.key.tag(), bytes: message.total };
        self.end_send(name.place, Ok(status));
        true
    }

    /// The peer calls for a message. False: it was not offered, or was called for before.
    pub(super) fn take_call_of(
        &mut self,
        peer: u32,
        name: Name,
        channel: &mut impl Channel,
    ) -> bool {
        let Some((_, announced)) = self.find_offer(peer, name) else { return false };
        if let Some(number) = announced {
            self.hide(number, channel);
        }
        self.answer_call(peer, name.place, name.number)
    }

    /// The peer says that it does not read a message any more. False: it was not asked.
    pub(super) fn take_retracted(
        &mut self,
        peer: u32,
        name: Name,
        channel: &mut impl Channel,
    ) -> bool {
        let Some((_, Some(number))) = self.find_offer(peer, name) else { return false };
        let asked = self.announced.get(number).is_some_and(|announced| announced.retracting);
        if asked {
            self.hide(number, channel);
        }
        asked
    }

    /// Asks the peer not to read the message any more. Until it has answered, the claim stands.
    pub(in crate::progress) fn retract(&mut self, number: u32) -> StillClaimed {
        let Some(&Announced { destination, name, retracting, .. }) = self.announced.get(number)
        else {
            return StillClaimed::Moving { peer: self.rank };
        };
        if !retracting {
            match self.reserve_word() {
                Ok(word) => self.say(destination, word, StreamHead::Retract(name)),
                Err(error) => return StillClaimed::OutOfMemory(error),
            }
            if let Some(announced) = self.announced.get_mut(number) {
                announced.retracting = true;
            }
        }
        StillClaimed::Moving { peer: destination }
    }

    /// Hides all that `peer` might have read. Its streams are closed.
    pub(super) fn hide_all(&mut self, peer: u32, channel: &mut impl Channel) {
        let mut from = 0;
        while let Some((number, announced)) = self.announced.next_from(from) {
            from = number + 1;
            if announced.destination == peer {
                self.hide(number, channel);
            }
        }
    }

    /// A sender takes its announcement back. If its message has met no receive, it is as if it had been offered; else the answer is
    /// on its way.
    pub(super) fn take_retract(&mut self, source: u32, name: Name) -> Result<(), OutOfMemory> {
        let mut kept = self.messages.iter().filter_map(|(number, message)| match message.body {
            Body::There(Kept::Exposed { offer, .. }) if message.envelope.source == source => {
                Some((number, offer))
            }
            _ => None,
        });
        let Some((number, offer)) = kept.find(|(_, offer)| offer.name() == name) else {
            return Ok(());
        };
        drop(kept);
        let word = self.reserve_word()?;
        if let Some(message) = self.messages.get_mut(number) {
            message.body = Body::There(Kept::Offered(offer));
        }
        self.say(source, word, StreamHead::Retracted(name));
        Ok(())
    }
}
