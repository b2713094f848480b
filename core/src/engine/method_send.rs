//! The sender's side of large messages that a transfer method moves (`[Nemesis07]` §3.2).
//!
//! Such a message is an offer that brings a cookie. The receiver answers with a CTS, or moves the
//! data alone. If either side refuses the message, the receiver pulls it like any offer. So the
//! method can be given up at any time and no message is lost.

use core::ptr::NonNull;

use super::method_transfers::{MethodRole, MethodStage, MethodTransfer};
use super::request::{OutgoingMessage, Pushed, SendStage};
use super::send::CellPart;
use super::{Engine, ProgressError, SendMode, Status, StillClaimed};
use crate::buffer::Cursor;
use crate::layout::{Count, EventKind};
use crate::lmt::TransferSide;
use crate::lmt::{COOKIE_MAX, Ending, MethodCookie, MethodStep, Refused, TransferMethod};
use crate::memory::{Memory, OutOfMemory};
use crate::wire::{Corrupt, Key, MethodHead, MethodRts, Offer, PacketKind};

/// Longest packet of a transfer method, in bytes. The smallest cell has room for it.
const PACKET_MAX: usize = MethodRts::LENGTH + COOKIE_MAX;

static_assertions::const_assert!(MethodHead::LENGTH <= MethodRts::LENGTH);
static_assertions::const_assert!(PACKET_MAX <= 1024);

impl<M: Memory + Clone> Engine<M> {
    /// Gives this rank a method to move large messages to and from ranks of its node. Returns false
    /// if it has one, which stays. The method is asked about each message that would otherwise be
    /// announced by an RTS.
    ///
    /// # Safety
    ///
    /// `method` is valid until the engine is dropped. It is accessed by this engine only, and its
    /// functions make no call of this engine.
    #[must_use]
    pub unsafe fn set_transfer_method(&mut self, method: NonNull<dyn TransferMethod>) -> bool {
        // SAFETY: the caller guarantees that the method outlives the engine, which is the only one
        // to access it (contract of `set_transfer_method`).
        unsafe { self.transfers.methods_mut().set(method) }
    }

    /// Prepares a message for the transfer method, if that is to move it.
    #[cold]
    pub(super) fn pre_send_by_method(
        &mut self,
        mode: SendMode,
        destination: u32,
        key: Key,
        data: Cursor,
    ) -> Result<Option<SendStage>, OutOfMemory> {
        let total = data.remaining();
        let methods = self.transfers.methods_mut();
        if !methods.serves(destination, total) {
            return Ok(None);
        }
        let role = MethodRole::Sender { first_stage: mode.first_stage() };
        let offer = Offer { total: total as u64, place: 0, number: 0 };
        let transfer = MethodTransfer::new(role, destination, key, offer, data);
        let number = methods.add(MethodTransfer { bytes: total, ..transfer })?;
        let mut cookie = MethodCookie::default();
        let prepared = methods.call(number, |method, side| match side {
            TransferSide::Send(side) => method.pre_send(side, &mut cookie),
            TransferSide::Recv(_) => Err(Refused),
        });
        if prepared != Some(Ok(())) {
            methods.remove(number);
            return Ok(None);
        }
        if let Some(transfer) = methods.get_mut(number) {
            transfer.out.cookie = cookie;
        }
        Ok(Some(SendStage::Method { transfer: number }))
    }

    /// Announces the message of the request `place`, if there is room for the RTS.
    pub(super) fn push_method_rts(
        &mut self,
        destination: u32,
        place: u32,
        number: u32,
        message: &OutgoingMessage,
    ) -> Result<Pushed, Corrupt> {
        let offer = self.next_offer(destination, place, message.total);
        let methods = self.transfers.methods();
        let Some(transfer) = methods.get(number) else { return Ok(Pushed::Blocked) };
        let (head, cookie) = (MethodRts::new(offer, methods.name(number)), transfer.out.cookie);
        let kind = PacketKind::MethodRts;
        if !self.push_method_packet(destination, kind, message.key, head.pack(), &cookie)? {
            return Ok(Pushed::Blocked);
        }
        if let Some(transfer) = self.transfers.methods_mut().get_mut(number) {
            transfer.offer = offer;
            transfer.request = Some(place);
            transfer.stage = MethodStage::Announced;
        }
        self.note(EventKind::Announced, destination, message.key, message.total as u64);
        // The stage stays: the request waits for the method.
        let _ = self.offered(destination, &offer);
        Ok(Pushed::Offered)
    }

    /// Sends a packet of a transfer method, through any path that has room.
    pub(super) fn push_method_packet(
        &mut self,
        destination: u32,
        kind: PacketKind,
        key: Key,
        head: [u8; MethodHead::LENGTH],
        cookie: &MethodCookie,
    ) -> Result<bool, Corrupt> {
        let mut packet = [0; PACKET_MAX];
        let length = head.len() + cookie.bytes().len();
        packet[..head.len()].copy_from_slice(&head);
        packet[head.len()..length].copy_from_slice(cookie.bytes());
        let from = NonNull::from(&packet).cast::<u8>();
        let fill = |to: NonNull<u8>, offset, piece| {
            // SAFETY: the caller asks for pieces of the first `length` bytes of the packet, and
            // gives room in the segment for each.
            unsafe { to.copy_from_nonoverlapping(from.add(offset), piece) };
        };
        let peer = &mut self.peers[destination as usize];
        // The RTS is the oldest send that waits. Another packet must not open the short paths for
        // later messages while a send waits.
        let is_next = kind == PacketKind::MethodRts || peer.waiting.is_empty();
        if is_next && peer.paths.is_announced() && length <= self.tuning.fastbox_max {
            peer.open();
            let sent = peer.paths.send_lines(kind, key, length, fill)?;
            if sent {
                peer.paths.count_out();
            }
            self.shut_if_told_to_keep(destination);
            if sent {
                self.notify(destination);
                return Ok(true);
            }
        }
        let part = CellPart { kind, key, total: length as u64, length };
        self.put_cell(destination, part, |to| fill(to, 0, length))
    }

    /// Begins to send, when the CTS has come for a receive of `bytes` bytes.
    pub(super) fn start_send_by_method(
        &mut self,
        number: u32,
        bytes: u64,
        cookie: &MethodCookie,
    ) -> Result<(), ProgressError> {
        let methods = self.transfers.methods_mut();
        let Some(transfer) = methods.get_mut(number) else { return Ok(()) };
        let total = transfer.offer.total;
        if transfer.stage != MethodStage::Announced || bytes > total {
            return Err(Corrupt::Length { found: bytes, max: total }.into());
        }
        // It is at most the message's length.
        transfer.bytes = bytes as usize;
        transfer.stage = MethodStage::Started;
        let step = methods.call(number, |method, side| match side {
            TransferSide::Send(side) => method.start_send(side, cookie.bytes()),
            TransferSide::Recv(_) => Err(Refused),
        });
        self.take_step(number, step.unwrap_or(Err(Refused)))
    }

    /// Ends the send of a message that has arrived.
    pub(super) fn finish_method_send(&mut self, number: u32) {
        let Some(MethodTransfer { request, peer, key, .. }) =
            self.transfers.methods_mut().end_side(number, Ending::Complete)
        else {
            return;
        };
        let Some(id) = request else { return };
        self.answer_offer(peer);
        let bytes = self.requests.outgoing(id).map_or(0, |message| message.total);
        self.count(peer, Count::Transfers, 1);
        self.count(peer, Count::TransferBytes, bytes as u64);
        self.note(EventKind::SendEnded, peer, key, bytes as u64);
        self.end_send(id, Ok(Status { source: peer, tag: key.tag(), bytes }));
    }

    /// Tells the receiver of a message that this side has refused it. The receiver pulls the
    /// message, unless its DONE is on its way.
    pub(super) fn give_up_send(&mut self, number: u32) {
        let methods = self.transfers.methods_mut();
        if methods.end_side(number, Ending::Abandoned).is_none() {
            return;
        }
        if let Some(transfer) = methods.get_mut(number) {
            transfer.stage = MethodStage::Refused;
            transfer.done = Some(false);
        }
    }

    /// Returns whether `destination` may pull the message of a transfer as offer `offer`, and ends
    /// the method's part in it.
    pub(super) fn is_pulled_from_method(
        &mut self,
        number: u32,
        destination: u32,
        offer: u32,
    ) -> bool {
        let transfer = self.transfers.methods().get(number);
        let is_named = transfer.is_some_and(|transfer| {
            let is_open = !matches!(transfer.stage, MethodStage::Prepared | MethodStage::Over);
            is_open && transfer.peer == destination && transfer.offer.number == offer
        });
        if is_named {
            self.transfers.methods_mut().end_side(number, Ending::Abandoned);
            self.transfers.methods_mut().remove(number);
        }
        is_named
    }

    /// Ends the method's part in a message that waits to be announced. Returns the stage that the
    /// message is in without the method.
    pub(super) fn leave_method(&mut self, number: u32) -> Option<SendStage> {
        let transfer = self.transfers.methods_mut().end_side(number, Ending::Abandoned)?;
        self.transfers.methods_mut().remove(number);
        match transfer.role {
            MethodRole::Sender { first_stage } => Some(first_stage),
            MethodRole::Receiver { .. } => None,
        }
    }

    /// Ends the method's part in a message if it goes to `rank`. Returns whether it does.
    pub(super) fn leave_method_to(&mut self, number: u32, rank: u32) -> bool {
        let transfer = self.transfers.methods().get(number);
        let is_to_rank = transfer.is_some_and(|transfer| transfer.peer == rank);
        if is_to_rank {
            self.leave_method(number);
        }
        is_to_rank
    }

    /// Ends the claim of the method on a message that is not announced yet. The receiver of an
    /// announced one is asked to give it back, since it may move the message at any time.
    pub(super) fn leave_method_early(&mut self, number: u32) -> Result<SendStage, StillClaimed> {
        let still = |peer| StillClaimed::Moving { peer };
        let methods = self.transfers.methods();
        let transfer = methods.get(number).ok_or(still(self.rank))?;
        let MethodTransfer { peer, key, stage, offer, is_retracted, .. } = *transfer;
        if stage == MethodStage::Prepared {
            return self.leave_method(number).ok_or(still(peer));
        }
        if stage == MethodStage::Announced && !is_retracted {
            let head = MethodRts::new(offer, methods.name(number)).pack();
            let (kind, none) = (PacketKind::MethodRetract, MethodCookie::default());
            // Progress meets corruption again, and reports it.
            let sent = self.push_method_packet(peer, kind, key, head, &none).unwrap_or(false);
            if let Some(transfer) = self.transfers.methods_mut().get_mut(number) {
                transfer.is_retracted = sent;
            }
        }
        Err(still(peer))
    }

    /// Keeps a message as an offer, after its receiver has given it back.
    pub(super) fn offer_instead(&mut self, number: u32) {
        let methods = self.transfers.methods_mut();
        let is_asked = |transfer: &&MethodTransfer| transfer.stage == MethodStage::Announced;
        let Some(transfer) = methods.get(number).filter(is_asked).copied() else { return };
        methods.end_side(number, Ending::Abandoned);
        methods.remove(number);
        if let Some(message) = transfer.request.and_then(|id| self.requests.outgoing_mut(id)) {
            let (destination, number) = (transfer.peer, transfer.offer.number);
            message.stage = SendStage::Offered { destination, number };
        }
    }

    /// Counts an offer to `destination` that will not be pulled any more.
    fn answer_offer(&mut self, destination: u32) {
        let peer = &mut self.peers[destination as usize];
        peer.offers.answered();
        if peer.owes_nothing() {
            self.outbox.unblock(destination);
        }
    }

    /// Takes the result of a call of the method.
    pub(super) fn take_step(
        &mut self,
        number: u32,
        step: Result<MethodStep, Refused>,
    ) -> Result<(), ProgressError> {
        let Some(transfer) = self.transfers.methods().get(number) else { return Ok(()) };
        let (peer, is_send) = (transfer.peer, transfer.is_send());
        if step == Ok(MethodStep::DoneForBoth)
            && let Some(transfer) = self.transfers.methods_mut().get_mut(number)
        {
            transfer.done = Some(true);
        }
        match (step, is_send) {
            (Ok(MethodStep::Waiting), _) => {}
            (Ok(MethodStep::Moved), _) => self.notify(peer),
            (Ok(MethodStep::Done | MethodStep::DoneForBoth), true) => {
                self.finish_method_send(number);
                self.notify(peer);
            }
            (Ok(MethodStep::Done | MethodStep::DoneForBoth), false) => {
                self.finish_method_recv(number);
                self.notify(peer);
            }
            (Err(Refused), true) => self.give_up_send(number),
            (Err(Refused), false) => self.give_up_recv(number)?,
        }
        self.push_method_packets(number)?;
        Ok(())
    }
}
