//! Sending.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use strait_core::progress::{Cursor, Fault, Part, Sent, Sign, StartError};
use strait_core::shm::copy_short;
use strait_core::wire::Key;

use super::{LINE, Lane, Op, Pending, Traffic, errno_of};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::Buffer;
use crate::wire::{
    Away, DATA, HAS_DATA, Head, INLINE_MAX, IOV_MAX, Kind, Numbered, WANTS_ACK, WANTS_CREDIT,
};

/// Longest message that is put together with its head before it goes, bytes; a longer one is sent in parts.
const TOGETHER: usize = 1024;

/// What a message is and what becomes of its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) lane: Lane,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
    /// Without a completion entry.
    pub(crate) quiet: bool,
    /// The buffer may be reused when the call returns.
    pub(crate) inject: bool,
    /// Over when the receiver has taken it.
    pub(crate) delivery: bool,
    /// And when a receive has accepted it.
    pub(crate) matched: bool,
    /// Where it goes.
    pub(crate) rank: u32,
}

/// A message in parts, as Strait reads it while it is on its way.
#[derive(Debug)]
pub(crate) struct Outgoing {
    head: [u8; Head::BYTES],
    parts: [Part; IOV_MAX + 1],
}

impl Lane {
    pub(super) const fn flag(self) -> u64 {
        match self {
            Self::Msg => flag::MSG,
            Self::Tagged => flag::TAGGED,
        }
    }

    const fn inline(self) -> Kind {
        match self {
            Self::Msg => Kind::Msg,
            Self::Tagged => Kind::Tagged,
        }
    }

    const fn away(self) -> Kind {
        match self {
            Self::Msg => Kind::MsgAway,
            Self::Tagged => Kind::TaggedAway,
        }
    }
}

impl How {
    #[inline(always)]
    fn head(&self) -> Head {
        Head { tag: self.tag, data: self.data.unwrap_or(0) }
    }

    #[inline(always)]
    fn flags(&self) -> u32 {
        if self.data.is_some() { HAS_DATA } else { 0 }
    }
}

impl Traffic {
    /// Sends a message that fits one line of Strait's, if it can go at once. What is said of its end is the caller's.
    ///
    /// # Safety
    ///
    /// The user's `length` bytes at `base` may be read; there are at most [`LINE_BODY`].
    #[inline(always)]
    pub(crate) unsafe fn send_line(
        &mut self,
        (lane, rank): (Lane, u32),
        (tag, data): (u64, Option<u64>),
        base: *const u8,
        length: usize,
    ) -> bool {
        let mut line = [0; LINE];
        let (head, body) = line.split_at_mut(Head::BYTES);
        // The first part has this length.
        if let Some(head) = head.first_chunk_mut() {
            Head { tag, data: data.unwrap_or(0) }.write(head);
        }
        // SAFETY: by the contract; the line has room.
        unsafe { copy_short(base, body.as_mut_ptr(), length) };
        let flags = if data.is_some() { HAS_DATA } else { 0 };
        self.port.send_short(rank, lane.inline().key(flags), &line[..Head::BYTES + length])
    }

    /// Begins to send `buffer`, by whichever way there is.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion; if `how` says inject, until this returns.
    #[inline(never)]
    pub(crate) unsafe fn send(&mut self, how: How, buffer: Buffer) -> Ssize {
        // It would overtake them.
        if self.has_far(how.rank) {
            self.progress();
            return -(errno::EAGAIN as Ssize);
        }
        let length = buffer.length();
        if length > INLINE_MAX || self.port.is_told_to_keep(how.rank) {
            // SAFETY: by the contract.
            return unsafe { self.send_away(how, buffer, length) };
        }
        if how.delivery {
            // SAFETY: by the contract.
            let sent = length <= TOGETHER
                && unsafe {
                    self.send_marked(how, &buffer, length)
                        || self.send_numbered(how, &buffer, length)
                };
            // SAFETY: by the contract.
            return if sent { 0 } else { unsafe { self.send_away(how, buffer, length) } };
        }
        if length <= TOGETHER {
            // SAFETY: by the contract.
            let whole = unsafe { together(&how, &buffer) };
            let key = how.lane.inline().key(how.flags());
            if self.port.send_medium(how.rank, key, &whole[..Head::BYTES + length]) {
                self.sent(&how, None);
                return 0;
            }
        }
        // SAFETY: by the contract.
        unsafe { self.send_parts(how, &buffer) }
    }

    /// Sends head and data together, of a message of which it is enough to know that its receiver has taken it. False: nothing was
    /// sent.
    ///
    /// # Safety
    ///
    /// As for [`Traffic::send`]; there are at most [`TOGETHER`] bytes.
    unsafe fn send_marked(&mut self, how: How, buffer: &Buffer, length: usize) -> bool {
        if how.matched {
            return false;
        }
        // SAFETY: by the contract.
        let whole = unsafe { together(&how, buffer) };
        let key = how.lane.inline().key(how.flags() | WANTS_CREDIT);
        let sent = self.port.send_marked(how.rank, key, &whole[..Head::BYTES + length]);
        let Some(mark) = sent else { return false };
        self.untaken.push(mark, how);
        true
    }

    /// Sends head, number and data together, of a message whose delivery will be told. False: nothing was sent.
    ///
    /// # Safety
    ///
    /// As for [`Traffic::send`]; there are at most [`TOGETHER`] bytes.
    unsafe fn send_numbered(&mut self, how: How, buffer: &Buffer, length: usize) -> bool {
        let number = self.next_number();
        let mut whole = [0; Numbered::BYTES + TOGETHER];
        let (front, body) = whole.split_at_mut(Numbered::BYTES);
        if let Some(front) = front.first_chunk_mut() {
            Numbered { head: how.head(), number }.write(front);
        }
        // SAFETY: by the contract; there is room.
        unsafe { buffer.copy_to(body.as_mut_ptr()) };
        let key = how.lane.inline().key(how.flags() | WANTS_ACK);
        let bytes = &whole[..Numbered::BYTES + length];
        let sent = if bytes.len() <= LINE {
            self.port.send_short(how.rank, key, bytes)
        } else {
            self.port.send_medium(how.rank, key, bytes)
        };
        if sent {
            self.undelivered.insert((how.rank, u64::from(number)), how);
        }
        sent
    }

    /// Sends head and data as one message of several parts.
    ///
    /// # Safety
    ///
    /// As for [`Traffic::send`].
    unsafe fn send_parts(&mut self, how: How, buffer: &Buffer) -> Ssize {
        let nothing = Part { base: NonNull::dangling(), length: 0 };
        let (head, parts) = ([0; Head::BYTES], [nothing; IOV_MAX + 1]);
        let mut outgoing = Box::new(Outgoing { head, parts });
        how.head().write(&mut outgoing.head);
        let base = NonNull::from(&mut outgoing.head).cast();
        outgoing.parts[0] = Part { base, length: Head::BYTES };
        let count = buffer.parts().len();
        outgoing.parts[1..=count].copy_from_slice(buffer.parts());
        let key = how.lane.inline().key(how.flags());
        // SAFETY: the user's memory by the contract; the box is kept until the send is over.
        let sent = unsafe {
            let parts = ptr::from_ref(&outgoing.parts[..=count]);
            self.port.isend(how.rank, key, Cursor::parts(&*parts))
        };
        match sent {
            Ok(Sent::Done) => self.sent(&how, None),
            Ok(Sent::Pending(id)) if how.inject => {
                self.port.settle(id);
                self.sent(&how, None);
            }
            Ok(Sent::Pending(id)) => self.pending.push((id, Pending::Whole(how, outgoing))),
            Err(error) => return refusal(&error),
        }
        0
    }

    /// Sends a head, and the data as a message of their own.
    ///
    /// # Safety
    ///
    /// As for [`Traffic::send`].
    unsafe fn send_away(&mut self, how: How, buffer: Buffer, length: usize) -> Ssize {
        let number = self.next_number();
        let ack = if how.delivery { WANTS_ACK } else { 0 };
        let key = how.lane.away().key(how.flags() | ack);
        let announced = self.tell(how.rank, key, how.head(), &Away { length, number }.bytes());
        if announced < 0 {
            return announced;
        }
        if how.delivery {
            self.undelivered.insert((how.rank, u64::from(number)), how);
        }
        // Of what is over when it is delivered, the data's leave says nothing.
        let told = (!how.delivery).then_some(how);
        // SAFETY: the user's memory by the contract; a list of parts is kept with the buffer.
        let sent = unsafe { self.port.isend(how.rank, Key::new(DATA, number), buffer.cursor()) };
        let fault = match sent {
            Ok(Sent::Done) => None,
            Ok(Sent::Pending(id)) if how.inject => {
                self.port.settle(id);
                None
            }
            Ok(Sent::Pending(id)) => {
                self.pending.push((id, Pending::Data(told, buffer)));
                return 0;
            }
            // The head has gone, and the operation with it.
            Err(_) => Some(Fault::PeerFailed { rank: how.rank, sign: Sign::Ended }),
        };
        if let Some(how) = told {
            self.sent(&how, fault);
        }
        0
    }

    /// Sends a head with a few bytes behind it, which nobody waits for.
    pub(super) fn tell(&mut self, rank: u32, key: Key, head: Head, body: &[u8]) -> Ssize {
        let mut line = [0; LINE];
        if let Some(to) = line.first_chunk_mut() {
            head.write(to);
        }
        let length = Head::BYTES + body.len();
        line[Head::BYTES..length].copy_from_slice(body);
        let line = &mut line[..length];
        if self.port.send_short(rank, key, line) {
            return 0;
        }
        let part = Part { base: NonNull::from(&mut *line).cast(), length };
        // SAFETY: what is left of it is copied before the line goes.
        match unsafe { self.port.isend(rank, key, Cursor::contiguous(part)) } {
            Ok(Sent::Done) => 0,
            Ok(Sent::Pending(id)) => {
                self.port.settle(id);
                0
            }
            Err(error) => refusal(&error),
        }
    }

    /// A send is over.
    #[inline(always)]
    pub(crate) fn sent(&mut self, how: &How, fault: Option<Fault>) {
        let flags = flag::SEND | how.lane.flag();
        let entry = CqEntry {
            op_context: how.context,
            flags,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: how.tag,
        };
        match fault {
            None => self.out.complete(Op::Send, entry, how.quiet, how.rank),
            Some(fault) => self.out.fail(Op::Send, entry, 0, errno_of(fault)),
        }
    }
}

/// A message's head, and its bytes behind it.
///
/// # Safety
///
/// The user's memory may be read; there are at most [`TOGETHER`] bytes.
unsafe fn together(how: &How, buffer: &Buffer) -> [u8; Head::BYTES + TOGETHER] {
    let mut whole = [0; Head::BYTES + TOGETHER];
    let (head, body) = whole.split_at_mut(Head::BYTES);
    if let Some(head) = head.first_chunk_mut() {
        how.head().write(head);
    }
    // SAFETY: by the contract; there is room.
    unsafe { buffer.copy_to(body.as_mut_ptr()) };
    whole
}

/// Why a send did not begin.
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
