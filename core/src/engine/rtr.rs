//! RTRs between ranks of one node (`[SpecRndv09]` §3): how an RTR is sent, used, matched and
//! retracted.
//!
//! An RTR opens the transfer's descriptor, which belongs to the receiver. One word of the
//! descriptor decides whether the sender uses the RTR or the receiver retracts it
//! ([`crate::shm::Chunks::use_rtr`]). So a receive is cancelled without a question to the peer. A
//! sender may move the message at once, in any state of its receiver.

use super::inbound::Inbound;
use super::outbound::Course;
use super::request::RequestState;
use super::rtrs::{PostedRtr, Wanted};
use super::{Engine, StillClaimed};
use crate::buffer::Cursor;
use crate::layout::DESCRIPTORS_PER_RANK;
use crate::lmt::{Home, LmtReceiver, LmtSender, Rtr, RtrAck, WireAddress};
use crate::matching::{Envelope, Pattern};
use crate::memory::Memory;
use crate::rndv::RTRS;
use crate::sync::{Step, reached};
use crate::wire::{Corrupt, Key, PacketKind, Turn};

/// Descriptors that remain for messages of this rank.
const SPARED: usize = DESCRIPTORS_PER_RANK as usize / 2;

impl<M: Memory + Clone> Engine<M> {
    /// Asks for a message into `buffer`, for the receive `id` that is being posted. Returns `None`
    /// if there is no room for an RTR; no receive depends on one.
    pub(super) fn send_rtr(
        &mut self,
        id: u32,
        pattern: &Pattern,
        buffer: Cursor,
        turn: Turn,
    ) -> Option<PostedRtr> {
        let Pattern { context, source, tag } = *pattern;
        let key = Key::new(context, tag);
        if self.peers[source as usize].is_remote() {
            return self.invite(id, pattern, buffer, turn);
        }
        self.transfers.reserve_receiver().ok()?;
        if self.transfers.free_descriptors() <= SPARED
            || !self.peers[source as usize].waiting.is_empty()
        {
            return None;
        }
        let home = self.transfers.take_descriptor()?;
        let segment = self.segment;
        let lent = match WireAddress::of(&buffer, &segment, self.rank) {
            WireAddress::Heap(_) if !self.tuning.transfer.uses_heaps() => WireAddress::Nowhere,
            place => place,
        };
        let half = LmtReceiver::ask(source, home, buffer, lent, home.of(&segment));
        let capacity = buffer.remaining();
        let inbound = Inbound { half, request: Some(id), key, total: 0, stores: None, capacity };
        let receiver = self.transfers.add_receiver(inbound).ok()?;
        let rtr = half.rtr(receiver, turn, self.peers[source as usize].large.may_read());
        self.want_fastbox(source);
        // Progress meets corruption again, and reports it.
        if !self.push_control(source, PacketKind::Rtr, key, &rtr.pack()).unwrap_or(false) {
            self.transfers.remove_receiver(receiver);
            return None;
        }
        reached(Step::RtrSent);
        self.negotiation.count_sent(source, key);
        Some(PostedRtr { turn, peer: source, number: receiver })
    }

    /// Retracts one RTR. Returns false if the peer has used it.
    fn retract_rtr(&mut self, PostedRtr { number: receiver, .. }: PostedRtr) -> bool {
        let Some(inbound) = self.transfers.receiver(receiver) else { return true };
        let home = inbound.half.home();
        if !home.of(&self.segment).chunks.retract(home.generation) {
            return false;
        }
        reached(Step::RtrRetracted);
        self.transfers.remove_receiver(receiver);
        true
    }

    /// Retracts the RTR of the posted receive `id`, which is removed, and the RTRs of the receives
    /// behind it (*retraction*). Those receives are next for other messages than the ones that they
    /// asked for.
    ///
    /// The youngest is retracted first. If one of them was used, all earlier messages have left,
    /// and so has the message of `id`.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: its message is on its way, or a peer on another node has to state whether
    /// it is.
    pub(super) fn retract_from(&mut self, id: u32) -> Result<(), StillClaimed> {
        let Some(asked) = self.asked(id) else { return Ok(()) };
        if self.peers[asked.peer as usize].is_remote() {
            return Err(self.take_back(asked));
        }
        let Some(inbound) = self.transfers.receiver(asked.number) else { return Ok(()) };
        let (source, key) = (inbound.half.peer(), inbound.key);
        let pattern = Pattern { context: key.context(), source, tag: key.tag() };
        let mut ids = [None; RTRS as usize];
        let receives = self.posted.youngest_first(&pattern).map(|(_, receive)| receive);
        let asking = receives.filter(|receive| self.asked(*receive).is_some());
        let from = asking.take_while(|receive| *receive != id).chain([id]);
        // No more receives than that have sent an RTR.
        ids.iter_mut().zip(from).for_each(|(place, receive)| *place = Some(receive));
        for receive in ids.into_iter().flatten() {
            if self.asked(receive).is_some_and(|asked| !self.retract_rtr(asked)) {
                return Err(StillClaimed::Moving { peer: source });
            }
            self.negotiation.count_retracted();
            if let Some(RequestState::Posted { asked, .. }) = self.requests.get_mut(receive) {
                *asked = None;
            }
        }
        // Otherwise a program that posts and cancels would fill its peer's queue.
        self.negotiation.mispredicted(source, key);
        Ok(())
    }

    /// Takes the buffer of a posted receive that has met a message which uses no RTR.
    pub(super) fn unpost(
        &mut self,
        id: u32,
        envelope: &Envelope,
        has_turn: bool,
    ) -> Result<Option<Cursor>, Corrupt> {
        let Some(RequestState::Posted { buffer, asked, .. }) = self.requests.get(id) else {
            return Ok(None);
        };
        if let Some(asked) = asked {
            if self.peers[asked.peer as usize].is_remote() {
                self.uninvite(asked.number);
            } else if !self.retract_rtr(asked) {
                return Err(Corrupt::Rtr);
            }
            let Envelope { context, source, tag } = *envelope;
            self.negotiation.missed(source, Key::new(context, tag), has_turn);
        }
        Ok(Some(buffer))
    }

    /// Matches a message that uses an RTR with its receive, which is the one that sent the RTR.
    pub(super) fn take_rtr_ack(&mut self, envelope: &Envelope, ack: RtrAck) -> Result<(), Corrupt> {
        let Envelope { context, source, tag } = *envelope;
        let from = ack.reach(&self.segment, source)?;
        let turn = Turn::parse(ack.turn).ok_or(Corrupt::Rtr)?;
        let id = self.posted.take(envelope).ok_or(Corrupt::Rtr)?;
        let number = self.asked(id).ok_or(Corrupt::Rtr)?.number;
        let from = self.prepare_to_read(source, from);
        let home = Home { owner: self.rank, place: ack.place, generation: ack.generation };
        let inbound = self.transfers.receiver_mut(number);
        let inbound = inbound.filter(|inbound| inbound.half.home() == home).ok_or(Corrupt::Rtr)?;
        inbound.total = ack.total as usize;
        inbound.half.start_used(ack, from);
        self.negotiation.take_rtr_ack(source, Key::new(context, tag), turn);
        self.requests.set(id, RequestState::Granted { receiver: number });
        Ok(())
    }

    /// Uses an RTR of `destination` for a message, unless it was retracted.
    pub(super) fn use_rtr(
        &mut self,
        destination: u32,
        rtr: &Rtr,
        data: Cursor,
    ) -> Option<(LmtSender, Course)> {
        let chunks = &rtr.home(destination).of(&self.segment).chunks;
        if !chunks.use_rtr(rtr.generation) {
            return None;
        }
        reached(Step::RtrUsed);
        // The capacity was checked when the RTR arrived.
        let length = data.remaining().min(rtr.capacity as usize);
        let to = rtr.reach(&self.segment, destination, length).ok().flatten();
        let (ways, course) = self.choose(destination, data);
        Some((LmtSender::by_rtr(destination, rtr, to, ways), course))
    }

    /// Handles an RTR that has arrived.
    pub(super) fn take_rtr(&mut self, envelope: &Envelope, rtr: Rtr) -> Result<(), Corrupt> {
        let Envelope { context, source, tag } = *envelope;
        rtr.reach(&self.segment, source, rtr.capacity as usize)?;
        let turn = Turn::parse(rtr.turn).ok_or(Corrupt::Rtr)?;
        self.peers[source as usize].large.asked();
        self.negotiation.take_rtr(source, Key::new(context, tag), turn, Wanted::Here(rtr));
        Ok(())
    }
}
