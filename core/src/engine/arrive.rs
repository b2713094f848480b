//! Arrivals: packets are taken in the order of their source. Each meets a posted receive or is kept
//! as unexpected.

use core::ptr::NonNull;

use super::answers::NO_ANSWER;
use super::message::{DeferredSend, UnexpectedData, UnexpectedMessage};
use super::method_news::MethodNews;
use super::packet::{Packet, PacketPayload};
use super::parcels::Filled;
use super::reassembly::ArrivalTarget;
use super::request::RequestState;
use super::started::outcome;
use super::{Engine, ProgressError};
use crate::buffer::Cursor;
use crate::layout::EventKind;
use crate::lmt::{Rtr, RtrAck, SendCookie};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::shm::{Cell, CellHead};
use crate::sync::{Step, reached};
use crate::wire::{CellIndex, Corrupt, Key, Offer, PacketKind, ParcelHead, SHORT_MAX, Turn};

impl<M: Memory + Clone> Engine<M> {
    /// Takes the packets in the receive queue, and returns whether there were any. Takes at most as
    /// many cells as the segment has, so that a fast sender cannot hold this rank here.
    pub(super) fn poll_queue(&mut self) -> Result<bool, ProgressError> {
        let mut moved = false;
        if let Some(cell) = self.inbox.cell() {
            self.deliver_cell(cell)?;
            self.inbox.cell_delivered();
            moved = true;
        }
        for _ in 0..self.segment.plan().cells() {
            let queue = &self.segment.rank_block(self.rank).recv_queue;
            let Some(cell) = queue.dequeue(&self.segment)? else { break };
            self.inbox.keep_cell(cell);
            self.deliver_cell(cell)?;
            self.inbox.cell_delivered();
            moved = true;
        }
        Ok(moved)
    }

    /// Takes the packets in the fastbox from `source`, at most one ring full, and returns whether
    /// there were any.
    pub(super) fn poll_fastbox(&mut self, source: u32) -> Result<bool, ProgressError> {
        let mut moved = false;
        for _ in 0..self.segment.plan().config().fastbox_lines {
            if !self.take_line(source)? {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    pub(super) fn take_from_fastbox(&mut self, source: u32) -> Result<bool, ProgressError> {
        let peer = &self.peers[source as usize];
        let Some((found, by_baton)) = peer.paths.find_next() else { return Ok(false) };
        let (kind, length) = (found.kind()?, found.length());
        if !peer.paths.next_holds(by_baton, length) {
            let max = self.tuning.fastbox_max as u64;
            return Err(Corrupt::Length { found: length as u64, max }.into());
        }
        if matches!(kind, PacketKind::EagerFirst | PacketKind::EagerMore) {
            return Err(Corrupt::Kind { found: kind as u8 }.into());
        }
        let message = peer.paths.lines_of_next(by_baton);
        let key = message.key();
        let envelope = Envelope { context: key.context(), source, tag: key.tag() };
        let payload = PacketPayload::Lines(message);
        let packet = Packet { envelope, kind, total: length, length, payload };
        if kind == PacketKind::Parcel {
            let is_head = length == ParcelHead::LENGTH;
            if !(is_head && self.take_posted_parcel(&envelope, message)) {
                match self.deliver_parcel(&packet)? {
                    Filled::Nothing => return Ok(false),
                    Filled::Part => return Ok(true),
                    Filled::All => {}
                }
            }
        } else {
            self.deliver(packet)?;
        }
        self.peers[source as usize].paths.release_next(by_baton, length);
        Ok(true)
    }

    /// Delivers a dequeued cell and returns the cell to its owner. On an error the cell is
    /// untouched.
    pub(super) fn deliver_cell(&mut self, cell: CellIndex) -> Result<(), ProgressError> {
        let pointer = self.segment.cell(cell);
        // SAFETY: the cell was dequeued by us and not given back yet.
        let head = unsafe { Cell::read_head(pointer) };
        let packet = self.parse(&head, pointer)?;
        let source = packet.envelope.source;
        self.contact(source)?;
        // This packet is ahead of its turn. The packets before it are in the fastbox, which their
        // sender filled first.
        while self.peers[source as usize].paths.next_in().number() != head.sequence {
            if !self.take_from_fastbox(source)? {
                let expected = self.peers[source as usize].paths.next_in().number();
                return Err(Corrupt::Sequence { source, found: head.sequence, expected }.into());
            }
        }
        self.deliver(packet)?;
        self.end_cell(cell, &head);
        Ok(())
    }

    /// Counts the packet in a cell, which was read, and returns the cell to its owner.
    pub(super) fn end_cell(&mut self, cell: CellIndex, head: &CellHead) {
        let source = head.source;
        let peer = &mut self.peers[source as usize];
        peer.paths.count_in();
        if head.flags & CellHead::FASTBOX_OPEN != 0
            && peer.paths.open_inbox(&self.segment, (self.rank, source))
        {
            self.inbox.open(source);
        }
        reached(Step::CellRead);
        let owner = self.segment.owner(cell);
        self.segment.rank_block(owner).free_queue.push(&self.segment, cell);
        // The owner may sleep because it lacks this very cell.
        self.notify(owner);
    }

    /// Checks the head of a cell and returns its packet.
    pub(super) fn parse(&self, head: &CellHead, cell: NonNull<Cell>) -> Result<Packet, Corrupt> {
        let config = self.segment.plan().config();
        if head.source >= config.ranks {
            return Err(Corrupt::Source { found: head.source, ranks: config.ranks });
        }
        let (length, max) = (u64::from(head.length), u64::from(config.cell_payload));
        if length > max {
            return Err(Corrupt::Length { found: length, max });
        }
        let kind = PacketKind::parse(head.kind)?;
        let whole = length == head.total;
        let fits = match kind {
            PacketKind::Eager
            | PacketKind::Rts
            | PacketKind::Offer
            | PacketKind::Rtr
            | PacketKind::RtrAck
            | PacketKind::MethodRts
            | PacketKind::MethodCts
            | PacketKind::MethodCookie
            | PacketKind::MethodDone
            | PacketKind::MethodRetract
            | PacketKind::Parcel => whole,
            PacketKind::EagerFirst | PacketKind::EagerMore => length < head.total,
            PacketKind::Called | PacketKind::Synchronous => length <= head.total,
        };
        let total =
            usize::try_from(head.total).ok().filter(|total| isize::try_from(*total).is_ok());
        let Some(total) = total.filter(|_| fits) else {
            return Err(Corrupt::Length { found: length, max: head.total });
        };
        let key = Key(head.key);
        Ok(Packet {
            envelope: Envelope { context: key.context(), source: head.source, tag: key.tag() },
            kind,
            total,
            length: head.length as usize,
            // SAFETY: the cell came from `Segment::cell`.
            payload: PacketPayload::Whole(unsafe { Cell::payload(cell) }),
        })
    }

    pub(super) fn deliver(&mut self, packet: Packet) -> Result<(), ProgressError> {
        let target = match packet.kind {
            PacketKind::Eager | PacketKind::EagerFirst => {
                match self.posted.take(&packet.envelope) {
                    Some(id) => self.meet(id, &packet)?,
                    None => self.keep_unexpected(&packet)?,
                }
            }
            PacketKind::Synchronous => self.deliver_synchronous(&packet)?,
            PacketKind::Called => self.take_called(&packet)?,
            PacketKind::Parcel => {
                // A parcel that a cell names was filled before the cell was sent.
                return match self.deliver_parcel(&packet)? {
                    Filled::All => Ok(()),
                    Filled::Part | Filled::Nothing => {
                        Err(Corrupt::Kind { found: packet.kind as u8 }.into())
                    }
                };
            }
            PacketKind::EagerMore => return Ok(self.continue_message(&packet)?),
            _ => return self.deliver_control(packet),
        };
        if !packet.completes() {
            let left = packet.total - packet.length;
            self.peers[packet.envelope.source as usize].arriving.begin(target, left);
        }
        Ok(())
    }

    /// Delivers a packet without data of a message: an announcement, or what two sides of a large
    /// message tell each other.
    #[inline(never)]
    fn deliver_control(&mut self, packet: Packet) -> Result<(), ProgressError> {
        match packet.kind {
            PacketKind::Rts => {
                let cookie = SendCookie::parse(&packet.head_of_payload()?)?;
                let Envelope { context, source, tag } = packet.envelope;
                // This rank announces nothing to itself: the named descriptor would be one of its
                // own.
                if source == self.rank {
                    return Err(
                        Corrupt::Source { found: source, ranks: self.segment.ranks() }.into()
                    );
                }
                cookie.reach(&self.segment, source)?;
                self.negotiation.take_rts(source, Key::new(context, tag), Turn::parse(cookie.turn));
                self.take_news(&packet.envelope, DeferredSend::Announced(cookie))
            }
            PacketKind::Offer => {
                let offer = Offer::parse(packet.head_of_payload()?)?;
                self.take_news(&packet.envelope, DeferredSend::Offered(offer))
            }
            PacketKind::MethodRts => self.deliver_method_rts(&packet),
            PacketKind::MethodRetract => self.take_method_retraction(&packet),
            PacketKind::MethodCts | PacketKind::MethodCookie | PacketKind::MethodDone => {
                self.take_method_packet(&packet)
            }
            PacketKind::Rtr => {
                let rtr = Rtr::parse(packet.head_of_payload()?)?;
                Ok(self.take_rtr(&packet.envelope, rtr)?)
            }
            PacketKind::RtrAck => {
                let ack = RtrAck::parse(packet.head_of_payload()?)?;
                Ok(self.take_rtr_ack(&packet.envelope, ack)?)
            }
            kind => Err(Corrupt::Kind { found: kind as u8 }.into()),
        }
    }

    /// Handles the announcement of a message that its sender kept: the message meets its receive,
    /// or waits for one. On an error nothing has changed.
    pub(super) fn take_news(
        &mut self,
        envelope: &Envelope,
        kept: DeferredSend,
    ) -> Result<(), ProgressError> {
        self.reserve_for(kept)?;
        let Some(id) = self.posted.take(envelope) else {
            let total = match kept {
                DeferredSend::Announced(cookie) => cookie.total as usize,
                DeferredSend::Method(MethodNews { offer, .. })
                | DeferredSend::Offered(offer)
                | DeferredSend::Exposed { offer, .. } => offer.total as usize,
            };
            let (envelope, body) = (*envelope, UnexpectedData::There(kept));
            self.unexpected.insert(UnexpectedMessage::new(envelope, body, total, 0))?;
            self.count_unexpected(EventKind::UnexpectedNews, &envelope, total);
            return Ok(());
        };
        let has_turn = match kept {
            DeferredSend::Announced(cookie) => Turn::parse(cookie.turn).is_some(),
            DeferredSend::Exposed { turn, .. } => turn.is_some(),
            DeferredSend::Method(_) | DeferredSend::Offered(_) => false,
        };
        self.note_met(envelope);
        if let Some(buffer) = self.unpost(id, envelope, has_turn)? {
            self.ask_for(id, envelope, kept, buffer)?;
        }
        Ok(())
    }

    /// Reserves memory for a kept message that meets its receive.
    pub(super) fn reserve_for(&mut self, kept: DeferredSend) -> Result<(), OutOfMemory> {
        self.transfers.reserve_receiver()?;
        self.pulls.reserve()?;
        match kept {
            DeferredSend::Exposed { .. } => self.network.reserve_reading(),
            DeferredSend::Method(_) => self.transfers.methods_mut().reserve(),
            DeferredSend::Announced(_) | DeferredSend::Offered(_) => Ok(()),
        }
    }

    /// Matches the first packet of a message with its posted receive.
    pub(super) fn meet(&mut self, id: u32, packet: &Packet) -> Result<ArrivalTarget, Corrupt> {
        let buffer = self.unpost(id, &packet.envelope, false)?;
        Ok(buffer.map_or(ArrivalTarget::Nobody, |buffer| self.begin_receive(id, buffer, packet)))
    }

    /// Delivers the first packet of a message to its receive.
    pub(super) fn begin_receive(
        &mut self,
        id: u32,
        mut buffer: Cursor,
        packet: &Packet,
    ) -> ArrivalTarget {
        let Envelope { source, tag, .. } = packet.envelope;
        let (total, capacity) = (packet.total, buffer.remaining());
        packet.scatter_to(&mut buffer);
        let state = if packet.completes() {
            RequestState::Done(outcome((&self.segment, self.rank), (source, tag), total, capacity))
        } else {
            RequestState::Receiving { buffer, capacity, source, tag, total }
        };
        self.requests.set(id, state);
        ArrivalTarget::Request(id)
    }

    /// Keeps the first packet of a message that has no receive. On an error nothing has changed.
    fn keep_unexpected(&mut self, packet: &Packet) -> Result<ArrivalTarget, OutOfMemory> {
        if packet.completes() && packet.length <= SHORT_MAX {
            return self.keep_short_packet(packet);
        }
        self.keep_packet(packet, NO_ANSWER)
    }

    /// Copies the first packet of a message that has no receive into memory of the engine. The
    /// receive will give the `answer`. On an error nothing has changed.
    pub(super) fn keep_packet(
        &mut self,
        packet: &Packet,
        answer: u32,
    ) -> Result<ArrivalTarget, OutOfMemory> {
        let payload = self.own(packet.total)?;
        let body = UnexpectedData::Here(payload);
        let message = UnexpectedMessage::new(packet.envelope, body, packet.total, packet.length);
        let kept = self.unexpected.insert(UnexpectedMessage { answer, ..message });
        if kept.is_ok() {
            self.count_unexpected(EventKind::Unexpected, &packet.envelope, packet.total);
            self.hold(packet.envelope.source, packet.total);
        }
        match (kept, payload) {
            (Ok(message), Some(owned)) => {
                let part = crate::buffer::Part { base: owned.base, length: owned.length };
                // SAFETY: the memory belongs to the engine and has room for the whole message.
                let mut cursor = unsafe { Cursor::contiguous(part) };
                packet.scatter_to(&mut cursor);
                Ok(ArrivalTarget::Message(message))
            }
            (Ok(message), None) => Ok(ArrivalTarget::Message(message)),
            (Err(error), owned) => {
                if let Some(owned) = owned {
                    self.buffers.put_back(owned);
                }
                Err(error)
            }
        }
    }

    /// Keeps a short message that came in one packet. On an error nothing has changed.
    fn keep_short_packet(&mut self, packet: &Packet) -> Result<ArrivalTarget, OutOfMemory> {
        let mut bytes = [0_u64; SHORT_MAX / 8];
        let part =
            crate::buffer::Part { base: NonNull::from(&mut bytes).cast(), length: SHORT_MAX };
        // SAFETY: the array has room for a short message, and outlives the cursor.
        packet.scatter_to(&mut unsafe { Cursor::contiguous(part) });
        let (envelope, length) = (packet.envelope, packet.length);
        let body = UnexpectedData::Short(bytes);
        let message = UnexpectedMessage::new(envelope, body, length, length);
        let number = self.unexpected.insert(message)?;
        self.count_unexpected(EventKind::Unexpected, &envelope, length);
        self.hold(envelope.source, length);
        Ok(ArrivalTarget::Message(number))
    }

    /// Delivers a further packet of the message that its source is in the middle of.
    fn continue_message(&mut self, packet: &Packet) -> Result<(), Corrupt> {
        let source = packet.envelope.source;
        let arriving = &mut self.peers[source as usize].arriving;
        let rest = arriving.rest();
        let Some((target, _)) = rest.filter(|(_, left)| packet.length <= *left) else {
            let max = rest.map_or(0, |(_, left)| left) as u64;
            return Err(Corrupt::Length { found: packet.length as u64, max });
        };
        let left = arriving.count(packet.length);
        match target {
            // The rest of a `Due` message comes through a stream, not in packets of the node.
            ArrivalTarget::Nobody | ArrivalTarget::Due { .. } => {}
            ArrivalTarget::Request(id) => {
                let Some(request) = self.requests.get_mut(id) else { return Ok(()) };
                if let RequestState::Receiving { buffer, capacity, source, tag, total } = request {
                    packet.scatter_to(buffer);
                    if left == 0 {
                        let (place, from) = ((&self.segment, self.rank), (*source, *tag));
                        *request = RequestState::Done(outcome(place, from, *total, *capacity));
                    }
                }
            }
            ArrivalTarget::Message(number) => {
                if let Some(rest) = self.unexpected.rest_of(number) {
                    // SAFETY: this is the message's own memory, and the rest of it is free.
                    packet.scatter_to(&mut unsafe { Cursor::contiguous(rest) });
                }
                self.unexpected.count_arrived(number, packet.length);
            }
        }
        Ok(())
    }
}
