//! Receiving: what arrives meets what is posted, in the order of its source.

use core::ptr::NonNull;

use super::peer::{Arriving, Target};
use super::request::{Entry, Owned, Request};
use super::{
    Cursor, Engine, Fault, Outcome, Owner, ProgressError, RequestId, StartError, Status,
    StillClaimed,
};
use crate::layout::{CellIndex, Corrupt};
use crate::lmt::SendCookie;
use crate::matching::{ANY_SOURCE, ANY_TAG, Envelope, Pattern, TAG_MAX};
use crate::memory::{Memory, OutOfMemory};
use crate::shm::{Cell, CellHead, FastboxReceiver, LineMessage, SHORT_MAX, copy_piece};
use crate::wire::{Key, Kind};

/// What became of a receive that began.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// The message had arrived.
    Done(Outcome),
    /// The buffer is needed until [`Engine::test`] gives an outcome.
    Pending(RequestId),
}

/// What [`Engine::recv_short`] found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bypass {
    /// The message, which is received.
    Received(Status),
    /// Nothing from this source yet. Looking again may help.
    Nothing,
    /// This receive cannot go round matching; use [`Engine::irecv`].
    Closed,
}

/// Context and tag that a receive wants, as a comparison of one word.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    key: u64,
    mask: u64,
}

impl Want {
    /// Messages of `context` with `tag`, or with any tag for [`ANY_TAG`].
    #[inline(always)]
    #[must_use]
    pub const fn new(context: u32, tag: u32) -> Self {
        let mask = if tag == ANY_TAG { !0 << 32 } else { !0 };
        Self { key: Key::new(context, tag).0, mask }
    }

    #[inline(always)]
    const fn accepts(self, key: Key) -> bool {
        (key.0 ^ self.key) & self.mask == 0
    }
}

/// An unexpected message, copied out of its cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) envelope: Envelope,
    /// Its place in the unexpected queue.
    pub(super) handle: u32,
    pub(super) payload: Option<Owned>,
    /// Set when the message was announced and is still where it was.
    pub(super) announced: Option<SendCookie>,
    pub(super) total: usize,
    /// Bytes of it that are here.
    pub(super) arrived: usize,
}

/// A packet as it was found, its numbers checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) envelope: Envelope,
    pub(super) key: Key,
    kind: Kind,
    /// Length of the whole message, bytes; of [`Kind::Data`], the place of the packet in the message.
    pub(super) total: usize,
    /// Length of this packet's payload, bytes.
    pub(super) length: usize,
    payload: Payload,
}

#[derive(Clone, Copy, Debug)]
enum Payload {
    Cell(NonNull<u8>),
    Lines(LineMessage),
}

impl Packet {
    /// Copies the payload, or as much of it as there is room for.
    pub(super) fn scatter_to(&self, cursor: &mut Cursor) {
        let mut take = |from, piece| {
            // SAFETY: the payload holds `length` bytes (checked where the packet was made) of the segment, where no user
            // buffer lies.
            unsafe { cursor.scatter(from, piece) };
        };
        match self.payload {
            Payload::Cell(from) => take(from, self.length),
            Payload::Lines(message) => message.copy(self.length, take),
        }
    }

    /// The payload of a packet that has exactly `N` bytes.
    pub(super) fn head_of_payload<const N: usize>(&self) -> Result<[u8; N], Corrupt> {
        if self.length != N {
            return Err(Corrupt::Length { found: self.length as u64, max: N as u64 });
        }
        let mut bytes = [0; N];
        let part = super::Part { base: NonNull::from(&mut bytes).cast(), length: N };
        // SAFETY: the array is there for as long as the cursor.
        self.scatter_to(&mut unsafe { Cursor::contiguous(part) });
        Ok(bytes)
    }

    fn completes(&self) -> bool {
        self.length == self.total
    }
}

impl<M: Memory + Clone> Engine<M> {
    /// Receives a message of up to [`SHORT_MAX`] bytes from `source` if it is the next one in the fastbox and nothing
    /// is posted or unexpected: the posted-receive bypass (`[Nemesis07]` §3.3).
    ///
    /// This is the latency path: no branch here is taken that the common case does not need.
    #[inline(always)]
    pub fn recv_short(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        // `ANY_SOURCE` is no index.
        let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
        let by_baton = peer.baton.peek(peer.next_in);
        let (found, message) = match by_baton {
            Some(found) => (found, peer.baton.message()),
            None => match peer.fastbox_in.peek(peer.next_in) {
                Some(found) => (found, peer.fastbox_in.message()),
                None => return Bypass::Nothing,
            },
        };
        let Some(length) = found.eager_up_to(SHORT_MAX) else { return Bypass::Closed };
        let key = message.key();
        if length > buffer.len()
            || !want.accepts(key)
            || !self.posted.is_empty()
            || !self.unexpected.is_empty()
        {
            return Bypass::Closed;
        }
        // SAFETY: the buffer has room for `length` bytes, checked above.
        unsafe { message.copy_short(NonNull::from(buffer).cast(), length) };
        if by_baton.is_some() {
            peer.baton.release();
        } else {
            peer.fastbox_in.release_short();
        }
        peer.next_in += 1;
        Bypass::Received(Status { source, tag: key.tag(), bytes: length })
    }

    /// As [`Engine::recv_short`], for any message that comes by baton or fastbox.
    #[inline(never)]
    pub fn recv_medium(&mut self, source: u32, want: Want, buffer: &mut [u8]) -> Bypass {
        let idle = self.posted.is_empty() && self.unexpected.is_empty();
        let Some(peer) = self.peers.get_mut(source as usize) else { return Bypass::Closed };
        let by_baton = peer.baton.peek(peer.next_in);
        let Some(found) = by_baton.or_else(|| peer.fastbox_in.peek(peer.next_in)) else {
            return Bypass::Nothing;
        };
        let (length, key) = (found.length(), peer.lines_of_next(by_baton.is_some()).key());
        let fits = length <= buffer.len() && peer.next_holds(by_baton.is_some(), length);
        if found.kind() != Ok(Kind::Eager) || !fits || !want.accepts(key) || !idle {
            return Bypass::Closed;
        }
        let mut to = buffer.as_mut_ptr();
        peer.lines_of_next(by_baton.is_some()).copy(length, |from, piece| {
            // SAFETY: `copy` gives consecutive pieces of `length` bytes in all, each at most a line's, which the buffer has
            // room for.
            unsafe {
                copy_piece(from.as_ptr(), to, piece);
                to = to.add(piece);
            }
        });
        peer.release_next(by_baton.is_some(), length);
        Bypass::Received(Status { source, tag: key.tag(), bytes: length })
    }

    /// True when waiting for the next message of `source`'s fastbox alone, by [`Engine::recv_short`], would starve
    /// something else or could miss it: messages elsewhere, operations under way.
    #[inline(always)]
    #[must_use]
    pub fn must_progress(&self, source: u32) -> bool {
        !self.posted.is_empty()
            || !self.unexpected.is_empty()
            || !self.blocked.is_empty()
            || !self.no_transfers()
            || self.segment.rank_block(self.rank).recv_queue.has_news()
            || (0..self.inboxes.len()).any(|place| {
                let other = self.inboxes.get(place);
                let peer = &self.peers[other as usize];
                other != source && peer.has_next()
            })
    }

    /// Receives the oldest message that matches `pattern` into `buffer`: at once if it has arrived, else when it does.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing was received or posted.
    ///
    /// # Safety
    ///
    /// What `buffer` points to stays valid and is touched by nobody else until the receive is over: until this returns
    /// [`Received::Done`] or an error, until [`Engine::test`] gives an outcome, or until [`Engine::detach`] returns
    /// `Ok`.
    pub unsafe fn irecv(
        &mut self,
        pattern: Pattern,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        self.check(&pattern)?;
        self.requests.reserve()?;
        if let Some(found) = self.unexpected.find(&pattern) {
            return self.receive_unexpected(found.message, buffer, owner);
        }
        if let Some(gone) = self.peers.get(pattern.source as usize).and_then(|peer| peer.gone) {
            return Err(StartError::Peer(gone.fault(pattern.source)));
        }
        let request = Request::Done(Err(Fault::Cancelled));
        let id = self.requests.insert(Entry { owner, request })?;
        match self.posted.post(pattern, id) {
            Ok(handle) => {
                if let Some(request) = self.request_mut(id) {
                    *request = Request::Posted { handle, buffer };
                }
                Ok(Received::Pending(RequestId(id)))
            }
            Err(error) => {
                self.requests.remove(id);
                Err(error.into())
            }
        }
    }

    /// Status of the oldest arrived message that matches `pattern`, which stays where it is (MPI-4.1 §3.8.1).
    ///
    /// # Errors
    ///
    /// [`StartError::Rank`] and [`StartError::Tag`].
    pub fn iprobe(&self, pattern: Pattern) -> Result<Option<Status>, StartError> {
        self.check(&pattern)?;
        let Some(found) = self.unexpected.find(&pattern) else {
            return match self.peers.get(pattern.source as usize).and_then(|peer| peer.gone) {
                Some(gone) => Err(StartError::Peer(gone.fault(pattern.source))),
                None => Ok(None),
            };
        };
        let Envelope { source, tag, .. } = found.envelope;
        let bytes = self.messages.get(found.message).map_or(0, |message| message.total);
        Ok(Some(Status { source, tag, bytes }))
    }

    /// Ends a receive that nothing has matched yet: its outcome is [`Fault::Cancelled`]. A receive that matched, and a
    /// send, go on (MPI-4.1 §3.8.4). Says whether it was cancelled.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let Some(Request::Posted { handle, .. }) = self.request(id.0) else {
            return false;
        };
        self.posted.cancel(handle);
        if let Some(request) = self.request_mut(id.0) {
            *request = Request::Done(Err(Fault::Cancelled));
        }
        true
    }

    /// Ends an operation's claim on its buffer and its id, without waiting. A send goes on from a copy of what is left; a
    /// receive that nothing matched is cancelled; a receive whose message is arriving lets the rest of it go.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: the claim stands. Make progress, which may end it, and try again.
    pub fn detach(&mut self, id: RequestId) -> Result<(), StillClaimed> {
        match self.request(id.0) {
            Some(Request::Sending { .. }) => return self.detach_send(id.0),
            Some(Request::Announced { sender }) => self.detach_sender(sender)?,
            Some(Request::Granted { receiver }) => self.detach_receiver(receiver)?,
            Some(Request::Posted { handle, .. }) => {
                self.posted.cancel(handle);
            }
            Some(Request::Receiving { source, .. }) => {
                if let Some(arriving) = &mut self.peers[source as usize].arriving {
                    arriving.target = Target::Nobody;
                }
            }
            Some(Request::Done(_)) | None => {}
        }
        self.requests.remove(id.0);
        Ok(())
    }

    /// Detaches every operation of `owner`, as [`Engine::detach`] does one.
    ///
    /// # Errors
    ///
    /// [`StillClaimed`]: at least one operation keeps its claim. The others are detached.
    pub fn detach_owned(&mut self, owner: Owner) -> Result<(), StillClaimed> {
        let mut result = Ok(());
        let mut from = 0;
        loop {
            let mut entries = self.requests.iter_from(from);
            let Some((id, _)) = entries.find(|(_, entry)| entry.owner == owner) else {
                return result;
            };
            drop(entries);
            result = result.and(self.detach(RequestId(id)));
            from = id + 1;
        }
    }

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

    fn take_from_fastbox(&mut self, source: u32) -> Result<bool, ProgressError> {
        let peer = &self.peers[source as usize];
        let by_baton = peer.baton.peek(peer.next_in);
        let Some(found) = by_baton.or_else(|| peer.fastbox_in.peek(peer.next_in)) else {
            return Ok(false);
        };
        let (kind, length) = (found.kind()?, found.length());
        if !peer.next_holds(by_baton.is_some(), length) {
            let max = self.tuning.fastbox_max as u64;
            return Err(Corrupt::Length { found: length as u64, max }.into());
        }
        if kind != Kind::Eager && kind != Kind::Rts {
            return Err(Corrupt::Kind { found: kind as u8 }.into());
        }
        let message = peer.lines_of_next(by_baton.is_some());
        let key = message.key();
        let envelope = Envelope { context: key.context(), source, tag: key.tag() };
        let payload = Payload::Lines(message);
        self.deliver(Packet { envelope, key, kind, total: length, length, payload })?;
        self.peers[source as usize].release_next(by_baton.is_some(), length);
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
        while self.peers[source as usize].next_in != head.sequence {
            if !self.take_from_fastbox(source)? {
                let expected = self.peers[source as usize].next_in;
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
            Kind::Eager | Kind::Rts => whole,
            Kind::EagerFirst | Kind::EagerMore => length < head.total,
            Kind::Data => length > 0,
        };
        let total =
            usize::try_from(head.total).ok().filter(|total| isize::try_from(*total).is_ok());
        let Some(total) = total.filter(|_| fits) else {
            return Err(Corrupt::Length { found: length, max: head.total });
        };
        let key = Key(head.key);
        Ok(Packet {
            envelope: Envelope { context: key.context(), source: head.source, tag: key.tag() },
            key,
            kind,
            total,
            length: head.length as usize,
            // SAFETY: the cell came from `Segment::cell`.
            payload: Payload::Cell(unsafe { Cell::payload(cell) }),
        })
    }

    fn deliver(&mut self, packet: Packet) -> Result<(), ProgressError> {
        match packet.kind {
            Kind::Eager | Kind::EagerFirst => {}
            Kind::EagerMore => return Ok(self.continue_message(&packet)?),
            Kind::Rts => return self.take_rts(&packet),
            Kind::Data => return Ok(self.take_data(&packet)?),
        }
        let target = match self.posted.take(&packet.envelope) {
            Some(id) => self.begin_receive(id, &packet),
            None => self.keep_unexpected(&packet)?,
        };
        if !packet.completes() {
            let left = packet.total - packet.length;
            self.peers[packet.envelope.source as usize].arriving = Some(Arriving { target, left });
        }
        Ok(())
    }

    /// The first packet of a message meets its receive.
    fn begin_receive(&mut self, id: u32, packet: &Packet) -> Target {
        let Some(request) = self.request_mut(id) else { return Target::Nobody };
        if let Request::Posted { buffer, .. } = request {
            let mut buffer = *buffer;
            let capacity = buffer.remaining();
            packet.scatter_to(&mut buffer);
            let Envelope { source, tag, .. } = packet.envelope;
            let total = packet.total;
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
        let kept = self.enlist(Message {
            envelope: packet.envelope,
            handle: 0,
            payload,
            announced: None,
            total: packet.total,
            arrived: packet.length,
        });
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
                if let Some(entry) = self.messages.get_mut(message) {
                    entry.handle = handle;
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
            Target::Nobody => {}
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
                if let Some(Owned { base, length }) = message.payload {
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

    /// A receive meets a message that came before it.
    fn receive_unexpected(
        &mut self,
        number: u32,
        mut buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        let Some(message) = self.messages.get(number).copied() else {
            return Ok(Received::Done(Err(Fault::Cancelled)));
        };
        if let Some(cookie) = message.announced {
            return self.receive_announced(number, &message, cookie, buffer, owner);
        }
        let Envelope { source, tag, .. } = message.envelope;
        let capacity = buffer.remaining();
        let whole = message.arrived == message.total;
        let request = Request::Receiving { buffer, capacity, source, tag, total: message.total };
        let id = if whole { None } else { Some(self.requests.insert(Entry { owner, request })?) };
        self.unexpected.remove(message.handle);
        self.messages.remove(number);
        if let Some(owned) = message.payload {
            // SAFETY: the message's own memory holds `arrived` bytes and is no user buffer.
            unsafe { buffer.scatter(owned.base, message.arrived) };
            self.release(owned);
        }
        let total = message.total;
        let Some(id) = id else {
            return Ok(Received::Done(outcome(source, tag, total, capacity)));
        };
        if let Some(request) = self.request_mut(id) {
            *request = Request::Receiving { buffer, capacity, source, tag, total };
        }
        if let Some(arriving) = &mut self.peers[source as usize].arriving {
            arriving.target = Target::Request(id);
        }
        Ok(Received::Pending(RequestId(id)))
    }

    /// A receive meets a message that was announced before it.
    fn receive_announced(
        &mut self,
        number: u32,
        message: &Message,
        cookie: SendCookie,
        buffer: Cursor,
        owner: Owner,
    ) -> Result<Received, StartError> {
        let request = Request::Done(Err(Fault::Cancelled));
        let id = self.requests.insert(Entry { owner, request })?;
        if let Err(error) = self.start_recv(id, &message.envelope, cookie, buffer) {
            self.requests.remove(id);
            return Err(error.into());
        }
        self.unexpected.remove(message.handle);
        self.messages.remove(number);
        Ok(Received::Pending(RequestId(id)))
    }

    fn check(&self, pattern: &Pattern) -> Result<(), StartError> {
        let ranks = self.segment.ranks();
        if pattern.source >= ranks && pattern.source != ANY_SOURCE {
            return Err(StartError::Rank { rank: pattern.source, ranks });
        }
        if pattern.tag > TAG_MAX && pattern.tag != ANY_TAG {
            return Err(StartError::Tag { tag: pattern.tag });
        }
        Ok(())
    }
}

/// How a receive ends whose whole message is here.
pub(super) fn outcome(source: u32, tag: u32, message: usize, buffer: usize) -> Outcome {
    if message > buffer {
        Err(Fault::Truncated { source, tag, message, buffer })
    } else {
        Ok(Status { source, tag, bytes: message })
    }
}
