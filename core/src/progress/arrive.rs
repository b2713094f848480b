//! Arriving: packets are taken in the order of their source and meet what is posted, or are kept.

use core::ptr::NonNull;

use super::packet::{Packet, Payload};
use super::parcels::Filled;
use super::peer::{Arriving, Target};
use super::receive::outcome;
use super::request::{Owned, Request};
use super::{Cursor, Engine, ProgressError};
use crate::hca::Remote;
use crate::layout::{CellIndex, Corrupt};
use crate::lmt::{Rtr, RtrAck, SendCookie};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::rndv::Turn;
use crate::shm::{Cell, CellHead, FastboxReceiver};
use crate::sync::{Step, reached};
use crate::wire::{Key, Kind, Offer};

/// An unexpected message: copied out of its cells, or kept by its sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) envelope: Envelope,
    pub(super) standing: Standing,
    /// The when of its arrival among those that met no receive.
    pub(super) arrival: u64,
    pub(super) body: Body,
    pub(super) total: usize,
    /// Bytes of it that are here.
    pub(super) arrived: usize,
}

impl Message {
    /// One that is about to be queued.
    const fn new(envelope: Envelope, body: Body, total: usize, arrived: usize) -> Self {
        Self { envelope, standing: Standing::Met, arrival: 0, body, total, arrived }
    }
}

/// Where an unexpected message stands in matching.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    /// In the unexpected queue, by this handle.
    Queued(u32),
    /// A probe has taken it out of there, for whoever knows its number.
    Matched,
    /// It has met its receive, or is about to be queued.
    Met,
}

/// Where the data of an unexpected message are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    /// In memory of the engine; `None` when there are none.
    Here(Option<Owned>),
    /// Where they were.
    There(Kept),
    /// With their sender, which is gone. Whoever has matched the message is to hear so.
    Lost,
}

/// How a sender told of a message that it kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// By an RTS: it is large.
    Announced(SendCookie),
    /// By an offer: we had no room for it.
    Offered(Offer),
    /// By an RTS from another node: it is large, and may be read where it lies.
    Exposed { offer: Offer, from: Remote, turn: Option<Turn> },
}

impl<M: Memory + Clone> Engine<M> {
    /// Takes what is in the queue, at most as many cells as there are, so that a fast sender cannot keep us here.
    pub(super) fn poll_queue(&mut self) -> Result<bool, ProgressError> {
        let mut moved = false;
        if let Some(cell) = self.stalled {
            self.deliver_cell(cell)?;
            self.stalled = None;
            moved = true;
        }
        for _ in 0..self.segment.plan().cells() {
            let queue = &self.segment.rank_block(self.rank).recv_queue;
            let Some(cell) = queue.dequeue(&self.segment)? else { break };
            self.stalled = Some(cell);
            self.deliver_cell(cell)?;
            self.stalled = None;
            moved = true;
        }
        Ok(moved)
    }

    /// Takes what is in the fastbox from `source`, at most one ring full.
    pub(super) fn poll_fastbox(&mut self, source: u32) -> Result<bool, ProgressError> {
        let mut moved = false;
        for _ in 0..self.segment.plan().config().fastbox_lines {
            if !self.take_from_fastbox(source)? {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    pub(super) fn take_from_fastbox(&mut self, source: u32) -> Result<bool, ProgressError> {
        let peer = &self.peers[source as usize];
        let Some((found, by_baton)) = peer.find_next() else { return Ok(false) };
        let (kind, length) = (found.kind()?, found.length());
        if !peer.next_holds(by_baton, length) {
            let max = self.tuning.fastbox_max as u64;
            return Err(Corrupt::Length { found: length as u64, max }.into());
        }
        if matches!(kind, Kind::EagerFirst | Kind::EagerMore) {
            return Err(Corrupt::Kind { found: kind as u8 }.into());
        }
        let message = peer.lines_of_next(by_baton);
        let key = message.key();
        let envelope = Envelope { context: key.context(), source, tag: key.tag() };
        let payload = Payload::Lines(message);
        let packet = Packet { envelope, kind, total: length, length, payload };
        if kind == Kind::Parcel {
            match self.deliver_parcel(&packet)? {
                Filled::Nothing => return Ok(false),
                Filled::Part => return Ok(true),
                Filled::All => {}
            }
        } else {
            self.deliver(packet)?;
        }
        self.peers[source as usize].release_next(by_baton, length);
        Ok(true)
    }

    /// Delivers a dequeued cell and gives it back to its owner. On error the cell is untouched.
    fn deliver_cell(&mut self, cell: CellIndex) -> Result<(), ProgressError> {
        let pointer = self.segment.cell(cell);
        // SAFETY: the cell was dequeued by us and not given back yet.
        let head = unsafe { Cell::read_head(pointer) };
        let packet = self.parse(&head, pointer)?;
        let source = packet.envelope.source;
        // A packet ahead of its turn: the ones before it are in the fastbox, where they were put first.
        while self.peers[source as usize].next_in.number() != head.sequence {
            if !self.take_from_fastbox(source)? {
                let expected = self.peers[source as usize].next_in.number();
                return Err(Corrupt::Sequence { source, found: head.sequence, expected }.into());
            }
        }
        self.deliver(packet)?;
        let peer = &mut self.peers[source as usize];
        peer.next_in += 1;
        if head.flags & CellHead::FASTBOX_OPEN != 0 && !peer.inbox_open {
            peer.inbox_open = true;
            peer.fastbox_in = FastboxReceiver::new(self.segment.fastbox(source, self.rank));
            peer.find_baton(&self.segment, self.rank, source);
            self.inboxes.insert(source);
        }
        reached(Step::CellRead);
        let owner = self.segment.owner(cell);
        self.segment.rank_block(owner).free_queue.push(&self.segment, cell);
        // It may sleep for want of this very cell.
        self.notify(owner);
        Ok(())
    }

    /// Checks what a cell says of itself.
    fn parse(&self, head: &CellHead, cell: NonNull<Cell>) -> Result<Packet, Corrupt> {
        let config = self.segment.plan().config();
        if head.source >= config.ranks {
            return Err(Corrupt::Source { found: head.source, ranks: config.ranks });
        }
        let (length, max) = (u64::from(head.length), u64::from(config.cell_payload));
        if length > max {
            return Err(Corrupt::Length { found: length, max });
        }
        let kind = Kind::parse(head.kind)?;
        let whole = length == head.total;
        let fits = match kind {
            Kind::Eager | Kind::Rts | Kind::Offer | Kind::Rtr | Kind::RtrAck | Kind::Parcel => {
                whole
            }
            Kind::EagerFirst | Kind::EagerMore => length < head.total,
            Kind::Called => length <= head.total,
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
            payload: Payload::Whole(unsafe { Cell::payload(cell) }),
        })
    }

    pub(super) fn deliver(&mut self, packet: Packet) -> Result<(), ProgressError> {
        let target = match packet.kind {
            Kind::Eager | Kind::EagerFirst => match self.posted.take(&packet.envelope) {
                Some(id) => self.meet(id, &packet)?,
                None => self.keep_unexpected(&packet)?,
            },
            Kind::Called => self.take_called(&packet)?,
            Kind::Parcel => {
                // What a cell names was filled before.
                return match self.deliver_parcel(&packet)? {
                    Filled::All => Ok(()),
                    Filled::Part | Filled::Nothing => {
                        Err(Corrupt::Kind { found: packet.kind as u8 }.into())
                    }
                };
            }
            Kind::EagerMore => return Ok(self.continue_message(&packet)?),
            Kind::Rts => {
                let cookie = SendCookie::parse(&packet.head_of_payload()?)?;
                let Envelope { context, source, tag } = packet.envelope;
                // This rank announces nothing to itself: the descriptor that is named would be one of its own.
                if source == self.rank {
                    return Err(
                        Corrupt::Source { found: source, ranks: self.segment.ranks() }.into()
                    );
                }
                cookie.reach(&self.segment, source)?;
                self.asking.rts(source, Key::new(context, tag), Turn::parse(cookie.turn));
                return self.take_news(&packet.envelope, Kept::Announced(cookie));
            }
            Kind::Offer => {
                let offer = Offer::parse(packet.head_of_payload()?)?;
                return self.take_news(&packet.envelope, Kept::Offered(offer));
            }
            Kind::Rtr => {
                let rtr = Rtr::parse(packet.head_of_payload()?)?;
                return Ok(self.take_rtr(&packet.envelope, rtr)?);
            }
            Kind::RtrAck => {
                let ack = RtrAck::parse(packet.head_of_payload()?)?;
                return Ok(self.take_rtr_ack(&packet.envelope, ack)?);
            }
        };
        if !packet.completes() {
            let left = packet.total - packet.length;
            self.peers[packet.envelope.source as usize].arriving = Some(Arriving { target, left });
        }
        Ok(())
    }

    /// News of a message that its sender kept: it meets its receive, or waits for it. All or nothing.
    pub(super) fn take_news(
        &mut self,
        envelope: &Envelope,
        kept: Kept,
    ) -> Result<(), ProgressError> {
        self.reserve_for(kept)?;
        let Some(id) = self.posted.take(envelope) else {
            let total = match kept {
                Kept::Announced(cookie) => cookie.total as usize,
                Kept::Offered(offer) | Kept::Exposed { offer, .. } => offer.total as usize,
            };
            let (envelope, body) = (*envelope, Body::There(kept));
            self.enlist(Message::new(envelope, body, total, 0))?;
            return Ok(());
        };
        let has_turn = match kept {
            Kept::Announced(cookie) => Turn::parse(cookie.turn).is_some(),
            Kept::Exposed { turn, .. } => turn.is_some(),
            Kept::Offered(_) => false,
        };
        if let Some(buffer) = self.unpost(id, envelope, has_turn)? {
            self.ask_for(id, envelope, kept, buffer)?;
        }
        Ok(())
    }

    /// Makes room for a kept message that meets its receive.
    pub(super) fn reserve_for(&mut self, kept: Kept) -> Result<(), OutOfMemory> {
        self.receivers.reserve()?;
        self.calls.reserve()?;
        if let Kept::Exposed { .. } = kept {
            self.readings.reserve()?;
            self.words.reserve()?;
        }
        Ok(())
    }

    /// The first packet of a message meets its posted receive.
    fn meet(&mut self, id: u32, packet: &Packet) -> Result<Target, Corrupt> {
        let buffer = self.unpost(id, &packet.envelope, false)?;
        Ok(buffer.map_or(Target::Nobody, |buffer| self.begin_receive(id, buffer, packet)))
    }

    /// The first packet of a message goes to its receive.
    pub(super) fn begin_receive(&mut self, id: u32, mut buffer: Cursor, packet: &Packet) -> Target {
        let Envelope { source, tag, .. } = packet.envelope;
        let (total, capacity) = (packet.total, buffer.remaining());
        packet.scatter_to(&mut buffer);
        if let Some(request) = self.request_mut(id) {
            *request = if packet.completes() {
                Request::Done(outcome(source, tag, total, capacity))
            } else {
                Request::Receiving { buffer, capacity, source, tag, total }
            };
        }
        Target::Request(id)
    }

    /// Copies the first packet of a message that nobody waits for out of the way. All or nothing.
    fn keep_unexpected(&mut self, packet: &Packet) -> Result<Target, OutOfMemory> {
        let payload = match packet.total {
            0 => None,
            length => {
                let base = self.memory.allocate(Owned::layout(length)?);
                Some(Owned { base: base.ok_or(OutOfMemory { bytes: length })?, length })
            }
        };
        let body = Body::Here(payload);
        let kept = self.enlist(Message::new(packet.envelope, body, packet.total, packet.length));
        if kept.is_ok() {
            self.hold(packet.envelope.source, packet.total);
        }
        match (kept, payload) {
            (Ok(message), Some(owned)) => {
                let part = super::Part { base: owned.base, length: owned.length };
                // SAFETY: the memory is ours and has room for the whole message.
                let mut cursor = unsafe { Cursor::contiguous(part) };
                packet.scatter_to(&mut cursor);
                Ok(Target::Message(message))
            }
            (Ok(message), None) => Ok(Target::Message(message)),
            (Err(error), owned) => {
                if let Some(owned) = owned {
                    self.release(owned);
                }
                Err(error)
            }
        }
    }

    /// Puts a message that nobody waits for where a receive will find it.
    pub(super) fn enlist(&mut self, message: Message) -> Result<u32, OutOfMemory> {
        let envelope = message.envelope;
        let message = self.messages.insert(message)?;
        match self.unexpected.insert(envelope, message) {
            Ok(handle) => {
                self.arrivals += 1;
                if let Some(entry) = self.messages.get_mut(message) {
                    (entry.standing, entry.arrival) = (Standing::Queued(handle), self.arrivals);
                }
                Ok(message)
            }
            Err(error) => {
                self.messages.remove(message);
                Err(error)
            }
        }
    }

    /// A further packet of the message that its source is in the middle of.
    fn continue_message(&mut self, packet: &Packet) -> Result<(), Corrupt> {
        let source = packet.envelope.source;
        let peer = &mut self.peers[source as usize];
        let Some(arriving) = peer.arriving.filter(|arriving| packet.length <= arriving.left) else {
            let max = peer.arriving.map_or(0, |arriving| arriving.left) as u64;
            return Err(Corrupt::Length { found: packet.length as u64, max });
        };
        let left = arriving.left - packet.length;
        peer.arriving = (left > 0).then_some(Arriving { left, ..arriving });
        match arriving.target {
            // A message that is due comes through a stream.
            Target::Nobody | Target::Due { .. } => {}
            Target::Request(id) => {
                let Some(request) = self.request_mut(id) else { return Ok(()) };
                if let Request::Receiving { buffer, capacity, source, tag, total } = request {
                    packet.scatter_to(buffer);
                    if left == 0 {
                        *request = Request::Done(outcome(*source, *tag, *total, *capacity));
                    }
                }
            }
            Target::Message(number) => {
                let Some(message) = self.messages.get_mut(number) else { return Ok(()) };
                if let Body::Here(Some(Owned { base, length })) = message.body {
                    // SAFETY: `arrived` bytes are inside the message's own memory, and `left` of it were free.
                    unsafe {
                        let rest = super::Part {
                            base: base.add(message.arrived),
                            length: length - message.arrived,
                        };
                        packet.scatter_to(&mut Cursor::contiguous(rest));
                    }
                }
                message.arrived += packet.length;
            }
        }
        Ok(())
    }
}
