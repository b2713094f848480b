//! The receiver's side of large messages that a transfer method moves, and what both sides share
//! (`[Nemesis07]` §3.2).

use core::ptr::NonNull;

use super::message::DeferredSend;
use super::message_buffers::OwnedBuffer;
use super::method_news::MethodNews;
use super::method_transfers::{MethodRole, MethodStage, MethodTransfer};
use super::packet::Packet;
use super::request::RequestState;
use super::started::outcome;
use super::{Engine, Fault, ProgressError, StillClaimed};
use crate::buffer::{Cursor, Part};
use crate::lmt::{COOKIE_MAX, Cts, Ending, MethodCookie, MethodStep, Refused, TransferSide};
use crate::matching::Envelope;
use crate::memory::{Memory, OutOfMemory};
use crate::wire::{Corrupt, Key, MethodHead, MethodRts, Offer, PacketKind};

/// Splits a packet of a transfer method into its head and its cookie.
fn parse<const N: usize>(packet: &Packet) -> Result<([u8; N], MethodCookie), Corrupt> {
    let (length, max) = (packet.length, N + COOKIE_MAX);
    if length < N || length > max {
        return Err(Corrupt::Length { found: length as u64, max: max as u64 });
    }
    let (mut head, mut bytes, mut cookie) = ([0; N], [0; COOKIE_MAX], MethodCookie::default());
    let parts = [
        Part { base: NonNull::from(&mut head).cast(), length: N },
        Part { base: NonNull::from(&mut bytes).cast(), length: COOKIE_MAX },
    ];
    // SAFETY: both arrays and the list of them outlive the cursor.
    packet.scatter_to(&mut unsafe { Cursor::parts(&parts) });
    // The length was checked.
    cookie.write(bytes.get(..length - N).unwrap_or_default()).unwrap_or_default();
    Ok((head, cookie))
}

impl<M: Memory + Clone> Engine<M> {
    /// Takes the announcement out of a packet. Its cookie lies in memory of the engine from now on.
    fn take_method_rts(&mut self, packet: &Packet) -> Result<MethodNews, ProgressError> {
        let (head, cookie) = parse(packet)?;
        let (offer, name) = MethodRts::parse(&head)?;
        let bytes = cookie.bytes();
        let owned = self.own(bytes.len())?;
        if let Some(owned) = owned {
            // SAFETY: the memory is new, belongs to the engine, and has room for the bytes.
            unsafe { owned.base.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(MethodNews { offer, name, cookie: owned })
    }

    /// Handles the announcement of a message that a method moves.
    pub(super) fn deliver_method_rts(&mut self, packet: &Packet) -> Result<(), ProgressError> {
        if packet.envelope.source == self.rank {
            let ranks = self.segment.ranks();
            return Err(Corrupt::Source { found: self.rank, ranks }.into());
        }
        let news = self.take_method_rts(packet)?;
        let taken = self.take_news(&packet.envelope, DeferredSend::Method(news));
        if let (Err(_), Some(cookie)) = (taken, news.cookie) {
            // The packet stays, and is read again.
            self.buffers.put_back(cookie);
        }
        taken
    }

    /// Gives the buffer of a message that waits for its receive back to the sender, which keeps the
    /// message as an offer. A message that has met its receive goes on.
    pub(super) fn take_method_retraction(&mut self, packet: &Packet) -> Result<(), ProgressError> {
        let (head, _) = parse(packet)?;
        let (_, name) = MethodRts::parse(&head)?;
        let Envelope { source, context, tag } = packet.envelope;
        let Some((number, news)) = self.unexpected.find_by_method(source, name) else {
            return Ok(());
        };
        // This entry only sends the answer.
        let role = MethodRole::Receiver { capacity: 0 };
        // SAFETY: there is no byte to keep valid.
        let nothing = unsafe { Cursor::parts(&[]) };
        let answer = MethodTransfer {
            stage: MethodStage::Over,
            remote: Some(name),
            done: Some(false),
            ..MethodTransfer::new(role, source, Key::new(context, tag), news.offer, nothing)
        };
        let answer = self.transfers.methods_mut().add(answer)?;
        self.unexpected.hide(number, news.offer);
        if let Some(cookie) = news.cookie {
            self.buffers.put_back(cookie);
        }
        self.push_method_packets(answer)?;
        Ok(())
    }

    /// Has the method move a message to the receive `id`, which it has met. Pulls the message if
    /// the method refuses it. On an error nothing has changed.
    pub(super) fn start_method_recv(
        &mut self,
        id: u32,
        envelope: &Envelope,
        news: MethodNews,
        buffer: Cursor,
    ) -> Result<(), OutOfMemory> {
        let MethodNews { offer, name, cookie } = news;
        // Fallible work comes first.
        self.pulls.reserve()?;
        self.transfers.methods_mut().reserve()?;
        let mut send_cookie = MethodCookie::default();
        if let Some(OwnedBuffer { base, length }) = cookie {
            // SAFETY: the buffer holds the cookie, and `take_method_rts` checked its length.
            let bytes = unsafe { core::slice::from_raw_parts(base.as_ptr(), length) };
            send_cookie.write(bytes).unwrap_or_default();
        }
        let capacity = buffer.remaining();
        let bytes = capacity.min(offer.total as usize);
        let number = match bytes {
            0 => None,
            _ => {
                self.pre_recv_by_method(id, envelope, (offer, bytes), (name, &send_cookie), buffer)
            }
        };
        match number {
            Some(number) => self.requests.set(id, RequestState::Method { transfer: number }),
            None => self.call_for(id, envelope.source, offer, buffer)?,
        }
        if let Some(cookie) = cookie {
            self.buffers.put_back(cookie);
        }
        if let Some(number) = number {
            // Progress meets corruption and a lack of memory again, and reports them.
            let _ = self.start_recv_by_method(number);
        }
        Ok(())
    }

    /// Calls the method's `pre_recv`. Returns `None` if it refuses the message, or there is none.
    fn pre_recv_by_method(
        &mut self,
        id: u32,
        envelope: &Envelope,
        (offer, bytes): (Offer, usize),
        (name, send_cookie): (u64, &MethodCookie),
        buffer: Cursor,
    ) -> Option<u32> {
        let Envelope { context, source, tag } = *envelope;
        let role = MethodRole::Receiver { capacity: buffer.remaining() };
        let transfer = MethodTransfer::new(role, source, Key::new(context, tag), offer, buffer);
        let methods = self.transfers.methods_mut();
        let number = methods.add(MethodTransfer { bytes, request: Some(id), ..transfer }).ok()?;
        let mut cookie = MethodCookie::default();
        let prepared = methods.call(number, |method, side| match side {
            TransferSide::Recv(side) => method.pre_recv(side, send_cookie.bytes(), &mut cookie),
            TransferSide::Send(_) => Err(Refused),
        });
        let Some(Ok(cts)) = prepared else {
            methods.remove(number);
            return None;
        };
        let transfer = methods.get_mut(number)?;
        transfer.remote = Some(name);
        match cts {
            Cts::Sent => {
                transfer.out.cookie = cookie;
                transfer.out.is_full = true;
            }
            Cts::Omitted => transfer.out_kind = PacketKind::MethodCookie,
        }
        Some(number)
    }

    fn start_recv_by_method(&mut self, number: u32) -> Result<(), ProgressError> {
        self.push_method_packets(number)?;
        let methods = self.transfers.methods_mut();
        let step = methods.call(number, |method, side| match side {
            TransferSide::Recv(side) => method.start_recv(side),
            TransferSide::Send(_) => Err(Refused),
        });
        if let Some(transfer) = methods.get_mut(number) {
            transfer.stage = MethodStage::Started;
        }
        self.take_step(number, step.unwrap_or(Err(Refused)))
    }

    /// Takes a CTS, COOKIE or DONE packet.
    pub(super) fn take_method_packet(&mut self, packet: &Packet) -> Result<(), ProgressError> {
        let (head, cookie) = parse(packet)?;
        let MethodHead { to, from, bytes } = MethodHead::read(&head);
        let source = packet.envelope.source;
        let methods = self.transfers.methods_mut();
        // A packet may come for a transfer that this side has ended.
        let Some(number) = methods.find(to) else { return Ok(()) };
        let Some(transfer) = methods.get_mut(number) else { return Ok(()) };
        if transfer.peer != source {
            return Err(Corrupt::Source { found: source, ranks: self.segment.ranks() }.into());
        }
        let is_done = packet.kind == PacketKind::MethodDone;
        match transfer.stage {
            MethodStage::Over => return Ok(()),
            MethodStage::Refused if !is_done => return Ok(()),
            _ => transfer.remote = Some(from),
        }
        let is_send = transfer.is_send();
        match (packet.kind, is_send) {
            (PacketKind::MethodCts, true) => self.start_send_by_method(number, bytes, &cookie),
            (PacketKind::MethodCookie, _) => {
                let step =
                    methods.call(number, |method, side| method.handle_cookie(side, cookie.bytes()));
                self.take_step(number, step.unwrap_or(Err(Refused)))
            }
            (PacketKind::MethodDone, true) if bytes == 1 => {
                self.finish_method_send(number);
                self.drop_if_over(number);
                Ok(())
            }
            (PacketKind::MethodDone, false) if bytes == 1 => {
                self.finish_method_recv(number);
                self.drop_if_over(number);
                Ok(())
            }
            (PacketKind::MethodDone, false) => self.give_up_recv(number),
            (PacketKind::MethodDone, true) => {
                self.offer_instead(number);
                Ok(())
            }
            (kind, _) => Err(Corrupt::Kind { found: kind as u8 }.into()),
        }
    }

    /// Ends the receive of a message that has arrived.
    pub(super) fn finish_method_recv(&mut self, number: u32) {
        let Some(transfer) = self.transfers.methods_mut().end_side(number, Ending::Complete) else {
            return;
        };
        let MethodTransfer { request: Some(id), role, peer, key, .. } = transfer else { return };
        let MethodRole::Receiver { capacity } = role else { return };
        let place = (&self.segment, self.rank);
        let outcome = outcome(place, (peer, key.tag()), transfer.total(), capacity);
        self.requests.finish(id, outcome);
    }

    /// Pulls the message of a transfer that a side has refused.
    pub(super) fn give_up_recv(&mut self, number: u32) -> Result<(), ProgressError> {
        // On an error the transfer stays, and the method is asked again.
        self.pulls.reserve()?;
        let Some(transfer) = self.transfers.methods_mut().end_side(number, Ending::Abandoned)
        else {
            return Ok(());
        };
        self.transfers.methods_mut().remove(number);
        if let Some(id) = transfer.request {
            self.call_for(id, transfer.peer, transfer.offer, transfer.data)?;
        }
        Ok(())
    }

    /// Returns why a receive keeps its claim on its buffer: the method moves the message.
    pub(super) fn still_moved_by_method(&self, number: u32) -> StillClaimed {
        let peer = self.transfers.methods().get(number).map_or(self.rank, |found| found.peer);
        StillClaimed::Moving { peer }
    }

    /// Advances the messages that the method moves.
    #[cold]
    pub(super) fn advance_method_transfers(&mut self) -> Result<bool, ProgressError> {
        let (mut moved, mut from) = (false, 0);
        while let Some(number) = self.transfers.methods().next_from(from) {
            from = number + 1;
            moved |= self.push_method_packets(number)?;
            let methods = self.transfers.methods_mut();
            let is_started = |transfer: &&MethodTransfer| transfer.stage == MethodStage::Started;
            if methods.get(number).filter(is_started).is_some()
                && let Some(step) = methods.call(number, |method, side| method.progress(side))
            {
                moved |= step != Ok(MethodStep::Waiting);
                self.take_step(number, step)?;
            }
        }
        Ok(moved)
    }

    /// Sends the packets that a transfer has to send, as far as there is room. Returns whether any
    /// left. Forgets a transfer that is over and has sent them all.
    pub(super) fn push_method_packets(&mut self, number: u32) -> Result<bool, Corrupt> {
        let mut moved = false;
        while let Some(transfer) = self.transfers.methods().get(number)
            && let Some(to) = transfer.remote
            && (transfer.out.is_full || transfer.done.is_some())
        {
            let (peer, key, from) =
                (transfer.peer, transfer.key, self.transfers.methods().name(number));
            let (is_cookie, out_kind) = (transfer.out.is_full, transfer.out_kind);
            let (kind, cookie, bytes) = match transfer.done {
                Some(complete) if !is_cookie => {
                    (PacketKind::MethodDone, MethodCookie::default(), u64::from(complete))
                }
                _ if out_kind == PacketKind::MethodCts => {
                    (out_kind, transfer.out.cookie, transfer.bytes as u64)
                }
                _ => (out_kind, transfer.out.cookie, 0),
            };
            let head = MethodHead { to, from, bytes }.pack();
            if !self.push_method_packet(peer, kind, key, head, &cookie)? {
                return Ok(moved);
            }
            moved = true;
            let Some(transfer) = self.transfers.methods_mut().get_mut(number) else { break };
            if is_cookie {
                transfer.out.is_full = false;
                transfer.out_kind = PacketKind::MethodCookie;
            } else {
                transfer.done = None;
            }
        }
        self.drop_if_over(number);
        Ok(moved)
    }

    /// Forgets a transfer that is over and has no packet to send.
    pub(super) fn drop_if_over(&mut self, number: u32) {
        let methods = self.transfers.methods_mut();
        let is_over = methods.get(number).is_some_and(MethodTransfer::is_finished);
        if is_over {
            methods.remove(number);
        }
    }

    /// Fails the receives of messages that the method was moving from a rank that is gone, and
    /// forgets all transfers with it. Announced sends fail as offers do.
    pub(super) fn fail_method_transfers_with(&mut self, rank: u32, fault: Fault) {
        let mut from = 0;
        while let Some(number) = self.transfers.methods().next_from(from) {
            from = number + 1;
            let methods = self.transfers.methods_mut();
            if methods.get(number).is_none_or(|transfer| transfer.peer != rank) {
                continue;
            }
            let ended = methods.end_side(number, Ending::Abandoned);
            methods.remove(number);
            if let Some(MethodTransfer { request: Some(id), role, .. }) = ended
                && matches!(role, MethodRole::Receiver { .. })
            {
                self.fail(id, fault);
            }
        }
    }
}
