//! Receives, from the user's call to the completion entry.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use std::rc::Rc;

use strait_core::buffer::copy::copy_short;
use strait_core::buffer::{Cursor, Part};
use strait_core::engine::{FailureCause, Fault, Received, RequestId};
use strait_core::matching::{ANY_SOURCE, MaskedEnvelope, MaskedPattern, Pattern};
use strait_core::wire::SHORT_MAX;

use super::queues::{Plain, Unmatched};
use super::{
    MessageBody, MessageClass, OperationKind, OperationPurpose, SharedMulti, Traffic,
    UnmatchedMessage, errno_of,
};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::UserBuffer;
use crate::wire::{Away, DATA, HAS_DATA, HeadKind, ProviderHead, WANTS_ACK};

/// A receive that waits for its message.
#[derive(Debug)]
pub(crate) struct PendingReceive {
    pub(crate) buffer: UserBuffer,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
    /// The receive takes several messages, one after the other.
    pub(crate) multi: Option<SharedMulti>,
}

/// A buffer for many messages.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    /// The number of messages that are in transit to the buffer.
    under_way: Cell<u32>,
    /// It takes no further message.
    retired: Cell<bool>,
}

/// A matched message.
#[derive(Debug)]
pub(super) struct Receipt {
    lane: MessageClass,
    context: *mut c_void,
    quiet: bool,
    base: *mut c_void,
    capacity: usize,
    multi: Option<SharedMulti>,
    source: u32,
    tag: u64,
    data: u64,
    flags: u32,
    length: usize,
    /// The number of the message in the notice of its delivery.
    number: u32,
    /// The ticket of the message among those in buffers for many, if its data are in transit.
    ticket: Option<u64>,
}

/// The source, flags and head of a message.
pub(super) type Met = (u32, u32, ProviderHead);

/// The effect of a probe on the message that it finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    /// The message stays in the queue.
    Peek,
    /// The message leaves the queue, for a later receive with the same context.
    Claim,
    /// The message is dropped.
    Discard,
}

impl Traffic {
    /// Returns whether a receive from `source` for one message can only be posted: no message
    /// waits, and the source need not be connected.
    #[inline(always)]
    pub(crate) fn may_post(&self, lane: MessageClass, source: u32) -> bool {
        let near = source == ANY_SOURCE || !self.port.is_elsewhere(source);
        near && self.lanes[lane as usize].has_no_message()
    }

    /// Posts a plain receive that no unexpected message matches. Returns zero, or `-FI_EAGAIN`
    /// without memory.
    #[inline(always)]
    pub(crate) fn post_plain(
        &mut self,
        lane: MessageClass,
        pattern: MaskedPattern,
        receive: Plain,
    ) -> Ssize {
        match self.lanes[lane as usize].post_plain(pattern, receive) {
            Ok(()) => 0,
            Err(_) => -(errno::EAGAIN as Ssize),
        }
    }

    /// Gives a receive the unexpected messages that it takes, and posts it if it is not used up. A
    /// receive from a source that is gone fails when the queues are next searched for such
    /// receives.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion.
    pub(crate) unsafe fn receive(
        &mut self,
        lane: MessageClass,
        pattern: MaskedPattern,
        receive: PendingReceive,
    ) -> Ssize {
        let mut receive = receive;
        while let Some(message) = self.lanes[lane as usize].take_message(&pattern) {
            match self.meet_kept(lane, receive, message) {
                Some(rest) => receive = rest,
                None => return 0,
            }
        }
        match self.lanes[lane as usize].post(pattern, receive) {
            Ok(()) => 0,
            Err(_) => -(errno::EAGAIN as Ssize),
        }
    }

    /// Gives a queued message to a receive. Returns the receive if it continues.
    fn meet_kept(
        &mut self,
        lane: MessageClass,
        receive: PendingReceive,
        message: Unmatched,
    ) -> Option<PendingReceive> {
        let MaskedEnvelope { source, tag } = message.envelope;
        let UnmatchedMessage { data, flags, body } = message.kept;
        let head = ProviderHead { tag, data };
        match body {
            MessageBody::Here(number, bytes) => {
                self.port.let_go(source, bytes.len());
                self.meet(lane, receive, (source, flags, head), (number, &bytes))
            }
            MessageBody::Away(away) => self.fetch(lane, receive, (source, flags, head), away),
        }
    }

    /// Gives a short message to the oldest receive of the queue, if that matches, is plain and has
    /// room for all of it. Returns false if nothing was done.
    ///
    /// Nearly every message takes this path. Its receive is read in place.
    #[inline(always)]
    pub(super) fn meet_plain(
        &mut self,
        lane: MessageClass,
        (source, flags, head): Met,
        bytes: &[u8],
    ) -> bool {
        let envelope = MaskedEnvelope { source, tag: head.tag };
        if bytes.len() > SHORT_MAX {
            return false;
        }
        let taken = self.lanes[lane as usize].take_plain(&envelope, bytes.len());
        let Some(Plain { part, context, quiet }) = taken else { return false };
        let to = part.base.as_ptr();
        // SAFETY: the part has room for the bytes, and is the user's valid memory (contract of
        // `receive`).
        unsafe { copy_short(bytes.as_ptr(), to, bytes.len()) };
        let entry = entry(lane, (context, to.cast()), flags, head, bytes.len());
        self.out.complete(OperationKind::Recv, entry, quiet, source);
        true
    }

    /// Gives a receive a message with its bytes, which have arrived. Returns the receive if it
    /// continues.
    pub(super) fn meet(
        &mut self,
        lane: MessageClass,
        receive: PendingReceive,
        (source, flags, head): Met,
        (number, bytes): (u32, &[u8]),
    ) -> Option<PendingReceive> {
        let (base, capacity) = (receive.buffer.base(), receive.buffer.length());
        // SAFETY: the user's memory is valid (contract of `receive`).
        unsafe { receive.buffer.fill(bytes) };
        let wants_ack = flags & WANTS_ACK != 0;
        if receive.multi.is_none() && bytes.len() <= capacity && !wants_ack {
            let entry = entry(lane, (receive.context, base), flags, head, bytes.len());
            self.out.complete(OperationKind::Recv, entry, receive.quiet, source);
            return None;
        }
        let (receipt, _, rest) =
            self.part(lane, receive, (source, flags, head), bytes.len(), number);
        self.received(receipt, None);
        rest
    }

    /// Gives a receive a message with data that travel separately. Returns the receive if it
    /// continues.
    #[cold]
    #[inline(never)]
    pub(super) fn fetch(
        &mut self,
        lane: MessageClass,
        receive: PendingReceive,
        met: Met,
        Away { length, number }: Away,
    ) -> Option<PendingReceive> {
        let (mut receipt, buffer, rest) = self.part(lane, receive, met, length, number);
        receipt.ticket = receipt.multi.is_some().then(|| self.arrivals.expect(met.0));
        // SAFETY: the user's memory is valid (contract of `receive`). A list of parts lives as long
        // as the buffer.
        let received = unsafe { self.fetch_into(met.0, number, buffer.cursor()) };
        match received {
            Ok(id) => self.pending.push((id, OperationPurpose::Receive(receipt, buffer))),
            Err(fault) => self.received(receipt, fault),
        }
        rest
    }

    /// Starts to receive data. `Err`: the receive has ended, with a fault or without.
    ///
    /// # Safety
    ///
    /// The memory of `cursor` stays valid until the receive has ended.
    unsafe fn fetch_into(
        &mut self,
        source: u32,
        number: u32,
        cursor: Cursor,
    ) -> Result<RequestId, Option<Fault>> {
        let pattern = Pattern { context: DATA, source, tag: number };
        // SAFETY: the memory stays valid until the receive has ended (contract of `fetch_into`).
        match unsafe { self.port.irecv(pattern, cursor) } {
            Ok(Received::Pending(id)) => Ok(id),
            Ok(Received::Done(outcome)) => Err(outcome.err()),
            Err(_) => Err(Some(Fault::PeerFailed { rank: source, sign: FailureCause::Ended })),
        }
    }

    /// Takes from a receive the buffer for one message of `length` bytes. Returns the receive if it
    /// continues: it takes many messages and has room.
    fn part(
        &self,
        lane: MessageClass,
        mut receive: PendingReceive,
        (source, flags, ProviderHead { tag, data }): Met,
        length: usize,
        number: u32,
    ) -> (Receipt, UserBuffer, Option<PendingReceive>) {
        let multi = receive.multi.clone();
        let (context, quiet) = (receive.context, receive.quiet);
        let (buffer, rest) = match &multi {
            None => (receive.buffer, None),
            Some(multi) => {
                let front = receive.buffer.split(length);
                multi.under_way.set(multi.under_way.get() + 1);
                multi.retired.set(receive.buffer.length() < self.min_multi.max(1));
                (front, (!multi.retired.get()).then_some(receive))
            }
        };
        let (base, capacity) = (buffer.base(), buffer.length());
        let receipt = Receipt {
            lane,
            context,
            quiet,
            base,
            capacity,
            multi,
            source,
            tag,
            data,
            flags,
            length,
            number,
            ticket: None,
        };
        (receipt, buffer, rest)
    }

    /// Ends the receive of a message. The completion of a message in a buffer for many is written
    /// after those of the messages that its source sent before it.
    pub(super) fn received(&mut self, receipt: Receipt, fault: Option<Fault>) {
        if receipt.multi.is_none() || self.arrivals.is_empty() {
            return self.tell_received(receipt, fault);
        }
        let (source, ticket) = (receipt.source, receipt.ticket);
        self.arrivals.end(source, ticket, (receipt, fault));
        while let Some((receipt, fault)) = self.arrivals.next(source) {
            self.tell_received(receipt, fault);
        }
    }

    fn tell_received(&mut self, receipt: Receipt, fault: Option<Fault>) {
        let Receipt { lane, source, tag, data, flags, length, capacity, .. } = receipt;
        let mut entry = CqEntry {
            op_context: receipt.context,
            flags: entry_flags(lane, flags),
            len: length.min(capacity),
            buf: receipt.base,
            data,
            tag,
        };
        if let Some(multi) = receipt.multi {
            multi.under_way.set(multi.under_way.get() - 1);
            // The last message to end reports it: from then on the buffer belongs to the user
            // again.
            if multi.retired.get() && multi.under_way.get() == 0 {
                entry.flags |= flag::MULTI_RECV;
            }
        }
        if flags & WANTS_ACK != 0 && fault.is_none_or(is_truncation) {
            let head = ProviderHead { tag: u64::from(receipt.number), data: 0 };
            // A sender that is gone needs no notice.
            let _ = self.tell(source, HeadKind::Delivered.key(0), head, &[]);
        }
        match fault {
            Some(fault) if !is_truncation(fault) => {
                self.out.fail(OperationKind::Recv, entry, 0, errno_of(fault));
            }
            _ if length > capacity => {
                self.out.fail(OperationKind::Recv, entry, length - capacity, errno::ETRUNC);
            }
            _ => self.out.complete(OperationKind::Recv, entry, receipt.quiet, source),
        }
    }

    /// Ends a receive without a message.
    #[cold]
    pub(super) fn give_up(&mut self, lane: MessageClass, receive: &PendingReceive, err: i32) {
        let to = (receive.context, receive.buffer.base());
        let mut entry = entry(lane, to, 0, ProviderHead::default(), 0);
        if receive.multi.is_some() {
            entry.flags |= flag::MULTI_RECV;
        }
        self.out.fail(OperationKind::Recv, entry, 0, err);
    }

    /// Cancels the receive of `context`, if no message has met it.
    pub(crate) fn cancel(&mut self, context: *mut c_void) -> Ssize {
        for lane in [MessageClass::Tagged, MessageClass::Msg] {
            let is_it = |_: &MaskedPattern, its: *mut c_void| its == context;
            if let Some(receive) = self.lanes[lane as usize].withdraw(is_it) {
                self.give_up(lane, &receive, errno::ECANCELED);
                return 0;
            }
        }
        -(errno::ENOENT as Ssize)
    }

    /// Probes for a message. The answer is a completion of `context`, or its failure with `ENOMSG`.
    pub(crate) fn look(
        &mut self,
        lane: MessageClass,
        pattern: MaskedPattern,
        look: Look,
        context: *mut c_void,
    ) {
        self.progress();
        let queues = &mut self.lanes[lane as usize];
        let Some((MaskedEnvelope { source, tag }, kept)) = queues.find_message(&pattern) else {
            let entry = blank(lane, context);
            self.out.fail(OperationKind::Recv, entry, 0, errno::ENOMSG);
            return;
        };
        let UnmatchedMessage { data, flags, body } = kept;
        let len = match body {
            MessageBody::Here(_, bytes) => bytes.len(),
            MessageBody::Away(away) => away.length,
        };
        let flags = entry_flags(lane, *flags);
        let entry = CqEntry { flags, len, data: *data, tag, ..blank(lane, context) };
        if look != Look::Peek
            && let Some(message) = queues.take_message(&pattern)
        {
            match look {
                Look::Discard => self.discard(message),
                _ => self.claimed.push((context, message)),
            }
        }
        self.out.complete(OperationKind::Recv, entry, false, source);
    }

    /// Receives the message that was claimed with the same context.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion. The receive takes one message.
    pub(crate) unsafe fn receive_claimed(
        &mut self,
        lane: MessageClass,
        receive: PendingReceive,
    ) -> Ssize {
        let Some(message) = self.take_claimed(receive.context) else {
            return -(errno::ENOENT as Ssize);
        };
        self.meet_kept(lane, receive, message);
        0
    }

    /// Drops the message that was claimed with `context`.
    pub(crate) fn discard_claimed(&mut self, lane: MessageClass, context: *mut c_void) -> Ssize {
        let Some(message) = self.take_claimed(context) else {
            return -(errno::ENOENT as Ssize);
        };
        let source = message.envelope.source;
        self.discard(message);
        self.out.complete(OperationKind::Recv, blank(lane, context), false, source);
        0
    }

    fn take_claimed(&mut self, context: *mut c_void) -> Option<Unmatched> {
        let place = self.claimed.iter().position(|claimed| claimed.0 == context)?;
        Some(self.claimed.remove(place).1)
    }

    fn discard(&mut self, Unmatched { envelope, kept }: Unmatched) {
        let source = envelope.source;
        let number = match kept.body {
            MessageBody::Here(number, bytes) => {
                self.port.let_go(source, bytes.len());
                number
            }
            MessageBody::Away(away) => {
                let nowhere = Part { base: ptr::NonNull::dangling(), length: 0 };
                // SAFETY: no byte is written.
                let dropped =
                    unsafe { self.fetch_into(source, away.number, Cursor::contiguous(nowhere)) };
                if let Ok(id) = dropped {
                    self.pending.push((id, OperationPurpose::Drop));
                }
                away.number
            }
        };
        if kept.flags & WANTS_ACK != 0 {
            let head = ProviderHead { tag: u64::from(number), data: 0 };
            let _ = self.tell(source, HeadKind::Delivered.key(0), head, &[]);
        }
    }
}

impl PendingReceive {
    /// Makes a receive, for many messages if `multi`.
    #[inline(always)]
    pub(crate) fn new(buffer: UserBuffer, context: *mut c_void, quiet: bool, multi: bool) -> Self {
        let multi = if multi { Some(Rc::default()) } else { None };
        Self { buffer, context, quiet, multi }
    }

    /// Returns the receive as a plain one, if it takes one message into a buffer of one part.
    pub(super) fn as_plain(&self) -> Option<Plain> {
        let part = self.buffer.only_part().filter(|_| self.multi.is_none())?;
        Some(Plain { part, context: self.context, quiet: self.quiet })
    }
}

#[inline(always)]
const fn entry_flags(lane: MessageClass, flags: u32) -> u64 {
    let data = if flags & HAS_DATA != 0 { flag::REMOTE_CQ_DATA } else { 0 };
    flag::RECV | lane.flag() | data
}

/// Returns the completion entry of a receive. `to` is its context and first byte.
#[inline(always)]
const fn entry(
    lane: MessageClass,
    to: (*mut c_void, *mut c_void),
    flags: u32,
    head: ProviderHead,
    len: usize,
) -> CqEntry {
    let (op_context, buf) = to;
    let flags = entry_flags(lane, flags);
    CqEntry { op_context, flags, len, buf, data: head.data, tag: head.tag }
}

const fn blank(lane: MessageClass, op_context: *mut c_void) -> CqEntry {
    let flags = flag::RECV | lane.flag();
    CqEntry { op_context, flags, len: 0, buf: ptr::null_mut(), data: 0, tag: 0 }
}

const fn is_truncation(fault: Fault) -> bool {
    matches!(fault, Fault::Truncated { .. })
}
