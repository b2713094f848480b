//! Sends.

use core::ptr::{self, NonNull};

use strait_core::buffer::copy::copy_short;
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::Sent;
use strait_core::rndv::Rendezvous;
use strait_core::wire::Key;

use super::send_op::{OutgoingParts, SendOp};
use super::{LINE, OperationPurpose, Traffic};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::UserBuffer;
use crate::cause::{ErrorCause, refusal};
use crate::operation::OperationKind;
use crate::wire::{
    Away, BY_RTR, DATA, INLINE_MAX, IOV_MAX, NAMED, Numbered, ProviderHead, WANTS_ACK, WANTS_CREDIT,
};

/// Longest message that is copied behind its head before it is sent, in bytes. A longer one is sent
/// in parts.
const TOGETHER: usize = 1024;

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
        self.promises.break_for(op.envelope(rank));
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
    #[inline(never)]
    pub(crate) fn send(&mut self, rank: u32, op: SendOp, buffer: UserBuffer) -> Ssize {
        // The message would overtake the accesses to memory of the same peer.
        if self.has_far(rank) {
            self.progress();
            return -(errno::EAGAIN as Ssize);
        }
        let length = buffer.length();
        if length <= INLINE_MAX || op.delivery {
            self.promises.break_for(op.envelope(rank));
        }
        if length > INLINE_MAX || self.port.is_told_to_keep(rank) {
            let sent = self.send_away(rank, op, buffer, length);
            // A search for an RTR takes in heads as well, which are older than the next ones.
            self.drain();
            return sent;
        }
        if op.delivery {
            let sent = length <= TOGETHER
                && (self.send_marked(rank, op, &buffer, length)
                    || self.send_numbered(rank, op, &buffer, length));
            return if sent { 0 } else { self.send_away(rank, op, buffer, length) };
        }
        if length <= TOGETHER {
            let mut whole = [0; ProviderHead::BYTES + TOGETHER];
            let bytes = together(&op, &buffer, length, &mut whole);
            let key = op.lane.inline().key(op.flags());
            if self.port.send_medium(rank, key, bytes) {
                self.sent(rank, &op, None);
                return 0;
            }
        }
        self.send_parts(rank, op, &buffer)
    }

    /// Sends head and data together, at most [`TOGETHER`] bytes of data. The send completes when
    /// the receiver has taken the message, which its credit reports. Returns false if nothing was
    /// sent.
    fn send_marked(&mut self, rank: u32, op: SendOp, buffer: &UserBuffer, length: usize) -> bool {
        if op.matched {
            return false;
        }
        let mut whole = [0; ProviderHead::BYTES + TOGETHER];
        let bytes = together(&op, buffer, length, &mut whole);
        let key = op.lane.inline().key(op.flags() | WANTS_CREDIT);
        let sent = self.port.send_marked(rank, key, bytes);
        let Some(mark) = sent else { return false };
        self.deliveries.push_marked(rank, mark, op);
        true
    }

    /// Sends head, number and data together, at most [`TOGETHER`] bytes of data. The receiver
    /// reports the delivery with the number. Returns false if nothing was sent.
    fn send_numbered(&mut self, rank: u32, op: SendOp, buffer: &UserBuffer, length: usize) -> bool {
        let number = self.next_number();
        let mut whole = [0; Numbered::BYTES + TOGETHER];
        let (front, body) = whole.split_at_mut(Numbered::BYTES);
        if let Some(front) = front.first_chunk_mut() {
            Numbered { head: op.head(), number }.write(front);
        }
        buffer.copy_to(body);
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
    fn send_parts(&mut self, rank: u32, op: SendOp, buffer: &UserBuffer) -> Ssize {
        let nothing = Part { base: NonNull::dangling(), length: 0 };
        let (head, parts) = ([0; ProviderHead::BYTES], [nothing; IOV_MAX + 1]);
        let mut outgoing = Box::new(OutgoingParts { head, parts });
        op.head().write(&mut outgoing.head);
        let base = NonNull::from(&mut outgoing.head).cast();
        outgoing.parts[0] = Part { base, length: ProviderHead::BYTES };
        let count = buffer.parts().len();
        outgoing.parts[1..=count].copy_from_slice(buffer.parts());
        let key = op.lane.inline().key(op.flags());
        // SAFETY: the user's memory is valid until the operation ends (invariant of `UserBuffer`).
        // The box lives until the send is complete.
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
            Err(error) => return refusal(error),
        }
        0
    }

    /// Sends a head, and the data as a separate message.
    fn send_away(&mut self, rank: u32, op: SendOp, buffer: UserBuffer, length: usize) -> Ssize {
        let away = self.name(rank, &op, length);
        let mut how = if op.delivery { WANTS_ACK } else { 0 };
        if away.key.context() == NAMED && self.port.look_for_rtr(rank, away.key, length) {
            how |= BY_RTR;
        }
        let key = op.lane.away().key(op.flags() | how);
        let announced = self.tell(rank, key, op.head(), &away.bytes());
        if announced < 0 {
            return announced;
        }
        if op.delivery {
            self.deliveries.push_numbered(rank, away.key.tag(), op);
        }
        // A send that completes at delivery does not complete when its data have been sent.
        let told = (!op.delivery).then_some((rank, op));
        // SAFETY: the send is part of the operation to which the buffer belongs. `pending` keeps a
        // list of parts until the send has ended.
        let sent = unsafe { self.port.isend(rank, away.key, buffer.cursor()) };
        let cause = match sent {
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
            Err(error) => Some(ErrorCause::from(error)),
        };
        if let Some((rank, op)) = told {
            self.sent(rank, &op, cause);
        }
        0
    }

    /// Chooses the name of the data of a message that leaves now, and promises one to the next
    /// message of its envelope.
    fn name(&mut self, rank: u32, op: &SendOp, length: usize) -> Away {
        let envelope = op.envelope(rank);
        // A number of a delivery belongs to one message at a time.
        let speculates = length > INLINE_MAX && !op.delivery;
        let promised = if speculates { self.promises.take(envelope) } else { None };
        let key = match promised {
            Some(number) => Key::new(NAMED, number),
            None => Key::new(DATA, self.next_number()),
        };
        let may_promise = speculates && self.port.rendezvous() != Rendezvous::Plain;
        let next = if may_promise { self.promises.make(envelope) } else { 0 };
        Away { length, key, next }
    }

    /// Sends a head with a few bytes behind it. No operation waits for its completion.
    pub(super) fn tell(&mut self, rank: u32, key: Key, head: ProviderHead, body: &[u8]) -> Ssize {
        let mut line = [0; LINE];
        if let Some(to) = line.first_chunk_mut() {
            head.write(to);
        }
        let length = ProviderHead::BYTES + body.len();
        line[ProviderHead::BYTES..length].copy_from_slice(body);
        self.send_at_once(rank, key, &mut line[..length])
    }

    /// Sends a head and the bytes behind it, all in `bytes`. What does not leave at once is copied.
    pub(super) fn send_at_once(&mut self, rank: u32, key: Key, bytes: &mut [u8]) -> Ssize {
        if bytes.len() <= LINE && self.port.send_short(rank, key, bytes) {
            return 0;
        }
        let part = Part { base: NonNull::from(&mut *bytes).cast(), length: bytes.len() };
        // SAFETY: `settle` copies what has not been sent before this returns.
        match unsafe { self.port.isend(rank, key, Cursor::contiguous(part)) } {
            Ok(Sent::Done) => 0,
            Ok(Sent::Pending(id)) => {
                self.port.settle(id);
                0
            }
            Err(error) => refusal(error),
        }
    }

    /// Completes a send to `rank`.
    #[inline(always)]
    pub(crate) fn sent(&mut self, rank: u32, op: &SendOp, cause: Option<ErrorCause>) {
        let flags = flag::SEND | op.lane.flag();
        let entry = CqEntry {
            op_context: op.context,
            flags,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: op.tag,
        };
        match cause {
            None => self.out.complete(OperationKind::Send, entry, op.quiet, rank),
            Some(cause) => self.out.fail(OperationKind::Send, entry, 0, cause),
        }
    }
}

/// Writes the head of a message and its `length` bytes behind it, at most [`TOGETHER`], into the
/// caller's array. Returning the array would copy all of it.
fn together<'a>(
    op: &SendOp,
    buffer: &UserBuffer,
    length: usize,
    whole: &'a mut [u8; ProviderHead::BYTES + TOGETHER],
) -> &'a [u8] {
    let (head, body) = whole.split_at_mut(ProviderHead::BYTES);
    if let Some(head) = head.first_chunk_mut() {
        op.head().write(head);
    }
    buffer.copy_to(body);
    &whole[..ProviderHead::BYTES + length]
}
