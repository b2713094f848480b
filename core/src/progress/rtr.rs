//! Large messages that their receivers ask for (`[SpecRndv09]` §3): the RTR, its use, and its end without use.
//!
//! On a node an RTR opens the transfer's descriptor, which is the receiver's. Who uses it and who retracts it is settled
//! there, by one word ([`crate::shm::Chunks::use_rtr`]). So a receive is cancelled without asking anybody, and a sender may
//! move the message at once, whatever its receiver does meanwhile.

use super::granted::Inbound;
use super::request::Request;
use super::{Cursor, Engine, StillClaimed};
use crate::layout::{Corrupt, DESCRIPTORS_PER_RANK};
use crate::lmt::{Chosen, Home, Place, Receiver, Rtr, RtrAck, Sender, Transfer};
use crate::matching::{ANY_SOURCE, ANY_TAG, Envelope, Pattern};
use crate::memory::{Memory, OutOfMemory};
use crate::sync::{Step, reached};
use crate::wire::{Key, Kind};

/// Descriptors that are left to messages of our own.
const SPARED: usize = DESCRIPTORS_PER_RANK as usize / 2;

impl<M: Memory + Clone> Engine<M> {
    /// Sends an RTR for the receive `id` of a message from `source` into `buffer`, if there is room for one. Its number among
    /// the receivers.
    pub(super) fn send_rtr(
        &mut self,
        id: u32,
        source: u32,
        key: Key,
        buffer: Cursor,
    ) -> Option<u32> {
        // An RTR is never needed: without memory there is none.
        self.receivers.reserve().ok()?;
        if self.descriptors.free() <= SPARED || self.peers[source as usize].waiting.ends.is_some() {
            return None;
        }
        let (place, generation) = self.descriptors.take()?;
        let (segment, home) = (self.segment, Home { owner: self.rank, place, generation });
        let lent = match Place::of(&buffer, &segment, self.rank) {
            Place::Heap(_) if !self.tuning.transfer.uses_heaps() => Place::Nowhere,
            place => place,
        };
        let half = Receiver::ask(source, home, buffer, lent, home.of(&segment));
        let (tag, capacity) = (key.tag(), buffer.remaining());
        let inbound = Inbound { half, request: Some(id), tag, total: 0, capacity };
        let number = self.receivers.insert(inbound).ok()?;
        let peer = &mut self.peers[source as usize];
        let rtr = half.rtr(number, peer.rtrs_sent.wrapping_add(1), peer.may_read);
        // Corruption is met again, and reported, by progress.
        if !self.push_control(source, Kind::Rtr, key, &rtr.pack()).unwrap_or(false) {
            self.remove_receiver(number);
            return None;
        }
        reached(Step::RtrSent);
        self.peers[source as usize].rtrs_sent = rtr.number;
        Some(number)
    }

    /// STAND-IN
    pub(super) fn speculate(&mut self, id: u32, pattern: Pattern, buffer: Cursor) -> Option<u32> {
        let Pattern { context, source, tag } = pattern;
        if source == ANY_SOURCE || tag == ANY_TAG || buffer.remaining() <= self.tuning.eager_max || source == self.rank {
            return None;
        }
        let clean = self.posted.patterns().all(|(_, other, id)| {
            !matches!(self.request(id), Some(Request::Posted { rtr: None, .. })) || !other.matches(&Envelope { context, source, tag })
        });
        if !clean { return None; }
        self.send_rtr(id, source, Key::new(context, tag), buffer)
    }

    /// Takes back the RTR of the receiver `number`. False: the peer has used it.
    pub(super) fn retract(&mut self, number: u32) -> bool {
        let Some(inbound) = self.receivers.get(number) else { return true };
        let home = inbound.half.home();
        if !home.of(&self.segment).chunks.retract(home.generation) {
            return false;
        }
        reached(Step::RtrRetracted);
        self.remove_receiver(number);
        true
    }

    /// Takes back the RTR of a receive that is dropped. One that was used has its message coming.
    pub(super) fn detach_rtr(&mut self, rtr: Option<u32>) -> Result<(), StillClaimed> {
        let Some(number) = rtr else { return Ok(()) };
        let peer = self.receivers.get(number).map_or(0, |inbound| inbound.half.peer());
        if self.retract(number) { Ok(()) } else { Err(StillClaimed::Moving { peer }) }
    }

    /// Takes the buffer of a posted receive, which has met a message that uses no RTR.
    pub(super) fn unpost(&mut self, id: u32) -> Result<Option<Cursor>, Corrupt> {
        let Some(Request::Posted { buffer, rtr, .. }) = self.request(id) else { return Ok(None) };
        if rtr.is_some_and(|number| !self.retract(number)) {
            return Err(Corrupt::Rtr);
        }
        Ok(Some(buffer))
    }

    /// A message that uses an RTR meets its receive, which is the one that sent the RTR.
    pub(super) fn take_rtr_ack(&mut self, envelope: &Envelope, ack: RtrAck) -> Result<(), Corrupt> {
        let from = ack.reach(&self.segment, envelope.source)?;
        let id = self.posted.take(envelope).ok_or(Corrupt::Rtr)?;
        let Some(Request::Posted { rtr: Some(number), .. }) = self.request(id) else {
            return Err(Corrupt::Rtr);
        };
        let from = self.prepare_to_read(envelope.source, from);
        let home = Home { owner: self.rank, place: ack.place, generation: ack.generation };
        let inbound = self.receivers.get_mut(number);
        let inbound = inbound.filter(|inbound| inbound.half.home() == home).ok_or(Corrupt::Rtr)?;
        inbound.total = ack.total as usize;
        inbound.half.start_used(inbound.total, from);
        if let Some(request) = self.request_mut(id) {
            *request = Request::Granted { receiver: number };
        }
        Ok(())
    }

    /// Uses an RTR of `destination` for a message, if there is one.
    pub(super) fn use_rtr(
        &mut self,
        destination: u32,
        key: Key,
        data: Cursor,
    ) -> Option<(Sender, Option<Chosen>)> {
        let rtr = self.find_rtr(destination, key)?;
        reached(Step::RtrUsed);
        // It was checked when it arrived.
        let length = data.remaining().min(rtr.capacity as usize);
        let to = rtr.reach(&self.segment, destination, length).ok().flatten();
        let receiver = &self.segment.rank_block(destination).liveness;
        let may_write = to.is_some() && self.peers[destination as usize].may_write;
        let (ways, chosen) = match self.tuning.transfer {
            // Who computes takes nothing out of a ring.
            Transfer::Auto if may_write && !receiver.is_inside() => {
                (self.ways(destination, data, Transfer::CmaShared), None)
            }
            _ => self.choose(destination, data),
        };
        Some((Sender::use_rtr(destination, &rtr, to, ways), chosen))
    }

    /// An RTR has come.
    pub(super) fn take_rtr(&mut self, envelope: &Envelope, rtr: Rtr) -> Result<(), OutOfMemory> {
        let Envelope { context, source, tag } = *envelope;
        let key = Key::new(context, tag);
        let crossed = self.senders.iter().any(|(_, outbound)| outbound.crosses(source, key));
        if !crossed {
            self.kept.insert((source, key, rtr))?;
        }
        Ok(())
    }

    /// STAND-IN
    fn find_rtr(&mut self, destination: u32, key: Key) -> Option<Rtr> {
        loop {
            let matching = self.kept.iter().filter(|(_, (source, k, _))| (*source, *k) == (destination, key));
            let (number, rtr) = matching.map(|(number, (.., rtr))| (number, *rtr)).min_by_key(|(_, rtr)| rtr.number)?;
            self.kept.remove(number);
            if rtr.home(destination).of(&self.segment).chunks.use_rtr(rtr.generation) {
                return Some(rtr);
            }
        }
    }
}
