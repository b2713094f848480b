//! Sends.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use strait_core::buffer::copy::copy_short;
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{FailureCause, Fault, Sent, StartError};
use strait_core::wire::Key;

use super::{LINE, MessageClass, OperationKind, OperationPurpose, Traffic, errno_of};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::UserBuffer;
use crate::wire::{
    Away, DATA, HAS_DATA, HeadKind, INLINE_MAX, IOV_MAX, Numbered, ProviderHead, WANTS_ACK,
    WANTS_CREDIT,
};

/// Longest message that is copied behind its head before it is sent, in bytes. A longer one is sent
/// in parts.
const TOGETHER: usize = 1024;

/// The kind of a message, and the way its send completes. The destination and the buffer are
/// separate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendOp {
    pub(crate) lane: MessageClass,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
    /// The buffer may be reused when the call returns.
    pub(crate) inject: bool,
    /// The send completes when the receiver has taken the message.
    pub(crate) delivery: bool,
    /// In addition, the send does not complete before a receive has matched the message.
    pub(crate) matched: bool,
}

/// A message in parts, which Strait reads while the send is pending.
#[derive(Debug)]
pub(crate) struct OutgoingParts {
    head: [u8; ProviderHead::BYTES],
    parts: [Part; IOV_MAX + 1],
}

impl MessageClass {
    pub(super) const fn flag(self) -> u64 {
        match self {
            Self::Msg => flag::MSG,
            Self::Tagged => flag::TAGGED,
        }
    }

    const fn inline(self) -> HeadKind {
        match self {
            Self::Msg => HeadKind::Msg,
            Self::Tagged => HeadKind::Tagged,
        }
    }

    const fn away(self) -> HeadKind {
        match self {
            Self::Msg => HeadKind::MsgAway,
            Self::Tagged => HeadKind::TaggedAway,
        }
    }
}

impl SendOp {
    /// Makes a send that releases its buffer at once, and reports no completion.
    #[inline(always)]
    pub(crate) const fn injected(lane: MessageClass) -> Self {
        Self {
            lane,
            tag: 0,
            data: None,
            context: ptr::null_mut(),
            quiet: true,
            inject: true,
            delivery: false,
            matched: false,
        }
    }

    /// Makes a send with these flags of libfabric.
    #[inline(always)]
    pub(crate) const fn flagged(lane: MessageClass, flags: u64, quiet: bool) -> Self {
        Self {
            quiet,
            inject: flags & flag::INJECT != 0,
            delivery: flags & (flag::DELIVERY_COMPLETE | flag::MATCH_COMPLETE) != 0,
            matched: flags & flag::MATCH_COMPLETE != 0,
            ..Self::injected(lane)
        }
    }

    #[inline(always)]
    fn head(&self) -> ProviderHead {
        ProviderHead { tag: self.tag, data: self.data.unwrap_or(0) }
    }

    #[inline(always)]
    fn flags(&self) -> u32 {
        if self.data.is_some() { HAS_DATA } else { 0 }
    }
}

impl Traffic {
    /// Sends a message that fits one line of Strait's, and completes the send. Returns false if the
    /// message cannot go at once: nothing was done.
    ///
    /// # Safety
    ///
    /// The user's `length` bytes at `base` may be read. There are at most [`LINE_BODY`].
    ///
    /// [`LINE_BODY`]: super::LINE_BODY
    #[inline(always)]
    pub(crate) unsafe fn send_line(
        &mut self,
        rank: u32,
        op: &SendOp,
        base: *const u8,
        length: usize,
    ) -> bool {
        let mut line = [0; LINE];
        let (head, body) = line.split_at_mut(ProviderHead::BYTES);
        // The first part has this length.
        if let Some(head) = head.first_chunk_mut() {
            op.head().write(head);
        }
        // SAFETY: the bytes may be read (contract of `send_line`), and the line has room for them.
        unsafe { copy_short(base, body.as_mut_ptr(), length) };
        let key = op.lane.inline().key(op.flags());
        let sent = self.port.send_short(rank, key, &line[..ProviderHead::BYTES + length]);
        if sent {
            self.sent(rank, op, None);
        }
        sent
    }

    /// Starts to send `buffer` to `rank`, in any way that can carry it.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion, or until this returns if `op` says inject.
    #[inline(never)]
    pub(crate) unsafe fn send(&mut self, rank: u32, op: SendOp, buffer: UserBuffer) -> Ssize {
        // The message would overtake the accesses to memory of the same peer.
        if self.has_far(rank) {
            self.progress();
            return -(errno::EAGAIN as Ssize);
        }
        let length = buffer.length();
        if length > INLINE_MAX || self.port.is_told_to_keep(rank) {
            // SAFETY: the memory is valid for as long as `send_away` asks (contract of `send`).
            return unsafe { self.send_away(rank, op, buffer, length) };
        }
        if op.delivery {
            // SAFETY: the memory is valid (contract of `send`).
            let sent = length <= TOGETHER
                && unsafe {
                    self.send_marked(rank, op, &buffer, length)
                        || self.send_numbered(rank, op, &buffer, length)
                };
            // SAFETY: the memory is valid for as long as `send_away` asks (contract of `send`).
            return if sent { 0 } else { unsafe { self.send_away(rank, op, buffer, length) } };
        }
        if length <= TOGETHER {
            // SAFETY: the memory is valid (contract of `send`).
            let whole = unsafe { together(&op, &buffer) };
            let key = op.lane.inline().key(op.flags());
            if self.port.send_medium(rank, key, &whole[..ProviderHead::BYTES + length]) {
                self.sent(rank, &op, None);
                return 0;
            }
        }
        // SAFETY: the memory is valid for as long as `send_parts` asks (contract of `send`).
        unsafe { self.send_parts(rank, op, &buffer) }
    }

    /// Sends head and data together. The send completes when the receiver has taken the message,
    /// which its credit reports. Returns false if nothing was sent.
    ///
    /// # Safety
    ///
    /// The user's memory may be read. There are at most [`TOGETHER`] bytes.
    unsafe fn send_marked(
        &mut self,
        rank: u32,
        op: SendOp,
        buffer: &UserBuffer,
        length: usize,
    ) -> bool {
        if op.matched {
            return false;
        }
        // SAFETY: the memory may be read, and is short enough (contract of `send_marked`).
        let whole = unsafe { together(&op, buffer) };
        let key = op.lane.inline().key(op.flags() | WANTS_CREDIT);
        let sent = self.port.send_marked(rank, key, &whole[..ProviderHead::BYTES + length]);
        let Some(mark) = sent else { return false };
        self.deliveries.push_marked(rank, mark, op);
        true
    }

    /// Sends head, number and data together. The receiver reports the delivery with the number.
    /// Returns false if nothing was sent.
    ///
    /// # Safety
    ///
    /// The user's memory may be read. There are at most [`TOGETHER`] bytes.
    unsafe fn send_numbered(
        &mut self,
        rank: u32,
        op: SendOp,
        buffer: &UserBuffer,
        length: usize,
    ) -> bool {
        let number = self.next_number();
        let mut whole = [0; Numbered::BYTES + TOGETHER];
        let (front, body) = whole.split_at_mut(Numbered::BYTES);
        if let Some(front) = front.first_chunk_mut() {
            Numbered { head: op.head(), number }.write(front);
        }
        // SAFETY: the memory may be read (contract of `send_numbered`), and there is room.
        unsafe { buffer.copy_to(body.as_mut_ptr()) };
        let key = op.lane.inline().key(op.flags() | WANTS_ACK);
        let bytes = &whole[..Numbered::BYTES + length];
        let sent = if bytes.len() <= LINE {
            self.port.send_short(rank, key, bytes)
        } else {
            self.port.send_medium(rank, key, bytes)
        };
        if sent {
            self.deliveries.push_numbered(rank, number, op);
        }
        sent
    }

    /// Sends head and data as one message of several parts.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion, or until this returns if `op` says inject.
    unsafe fn send_parts(&mut self, rank: u32, op: SendOp, buffer: &UserBuffer) -> Ssize {
        let nothing = Part { base: NonNull::dangling(), length: 0 };
        let (head, parts) = ([0; ProviderHead::BYTES], [nothing; IOV_MAX + 1]);
        let mut outgoing = Box::new(OutgoingParts { head, parts });
        op.head().write(&mut outgoing.head);
        let base = NonNull::from(&mut outgoing.head).cast();
        outgoing.parts[0] = Part { base, length: ProviderHead::BYTES };
        let count = buffer.parts().len();
        outgoing.parts[1..=count].copy_from_slice(buffer.parts());
        let key = op.lane.inline().key(op.flags());
        // SAFETY: the user's memory is valid (contract of `send_parts`). The box lives until the
        // send is complete.
        let sent = unsafe {
            let parts = ptr::from_ref(&outgoing.parts[..=count]);
            self.port.isend(rank, key, Cursor::parts(&*parts))
        };
        match sent {
            Ok(Sent::Done) => self.sent(rank, &op, None),
            Ok(Sent::Pending(id)) if op.inject => {
                self.port.settle(id);
                self.sent(rank, &op, None);
            }
            Ok(Sent::Pending(id)) => {
                self.pending.push((id, OperationPurpose::Whole(rank, op, outgoing)));
            }
            Err(error) => return refusal(&error),
        }
        0
    }

    /// Sends a head, and the data as a separate message.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion, or until this returns if `op` says inject.
    unsafe fn send_away(
        &mut self,
        rank: u32,
        op: SendOp,
        buffer: UserBuffer,
        length: usize,
    ) -> Ssize {
        let number = self.next_number();
        let ack = if op.delivery { WANTS_ACK } else { 0 };
        let key = op.lane.away().key(op.flags() | ack);
        let announced = self.tell(rank, key, op.head(), &Away { length, number }.bytes());
        if announced < 0 {
            return announced;
        }
        if op.delivery {
            self.deliveries.push_numbered(rank, number, op);
        }
        // A send that completes at delivery does not complete when its data have been sent.
        let told = (!op.delivery).then_some((rank, op));
        // SAFETY: the user's memory is valid (contract of `send_away`). A list of parts lives as
        // long as the buffer.
        let sent = unsafe { self.port.isend(rank, Key::new(DATA, number), buffer.cursor()) };
        let fault = match sent {
            Ok(Sent::Done) => None,
            Ok(Sent::Pending(id)) if op.inject => {
                self.port.settle(id);
                None
            }
            Ok(Sent::Pending(id)) => {
                self.pending.push((id, OperationPurpose::Data(told, buffer)));
                return 0;
            }
            // The head has been sent, so the operation ends with a completion.
            Err(_) => Some(Fault::PeerFailed { rank, sign: FailureCause::Ended }),
        };
        if let Some((rank, op)) = told {
            self.sent(rank, &op, fault);
        }
        0
    }

    /// Sends a head with a few bytes behind it. No operation waits for its completion.
    pub(super) fn tell(&mut self, rank: u32, key: Key, head: ProviderHead, body: &[u8]) -> Ssize {
        let mut line = [0; LINE];
        if let Some(to) = line.first_chunk_mut() {
            head.write(to);
        }
        let length = ProviderHead::BYTES + body.len();
        line[ProviderHead::BYTES..length].copy_from_slice(body);
        let line = &mut line[..length];
        if self.port.send_short(rank, key, line) {
            return 0;
        }
        let part = Part { base: NonNull::from(&mut *line).cast(), length };
        // SAFETY: `settle` copies what has not been sent before the line is dropped.
        match unsafe { self.port.isend(rank, key, Cursor::contiguous(part)) } {
            Ok(Sent::Done) => 0,
            Ok(Sent::Pending(id)) => {
                self.port.settle(id);
                0
            }
            Err(error) => refusal(&error),
        }
    }

    /// Completes a send to `rank`.
    #[inline(always)]
    pub(crate) fn sent(&mut self, rank: u32, op: &SendOp, fault: Option<Fault>) {
        let flags = flag::SEND | op.lane.flag();
        let entry = CqEntry {
            op_context: op.context,
            flags,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: op.tag,
        };
        match fault {
            None => self.out.complete(OperationKind::Send, entry, op.quiet, rank),
            Some(fault) => self.out.fail(OperationKind::Send, entry, 0, errno_of(fault)),
        }
    }
}

/// Returns the head of a message with its bytes behind it.
///
/// # Safety
///
/// The user's memory may be read. There are at most [`TOGETHER`] bytes.
unsafe fn together(op: &SendOp, buffer: &UserBuffer) -> [u8; ProviderHead::BYTES + TOGETHER] {
    let mut whole = [0; ProviderHead::BYTES + TOGETHER];
    let (head, body) = whole.split_at_mut(ProviderHead::BYTES);
    if let Some(head) = head.first_chunk_mut() {
        op.head().write(head);
    }
    // SAFETY: the memory may be read (contract of `together`), and there is room.
    unsafe { buffer.copy_to(body.as_mut_ptr()) };
    whole
}

/// Returns the error number of a send that did not start.
#[cold]
pub(super) fn refusal(error: &StartError) -> Ssize {
    let number = match error {
        StartError::Peer(fault) => errno_of(*fault),
        StartError::OutOfMemory(_) => errno::EAGAIN,
        StartError::Rank { .. } | StartError::Tag { .. } => errno::EINVAL,
        StartError::Corrupt(_) => errno::EIO,
    };
    -(number as Ssize)
}
