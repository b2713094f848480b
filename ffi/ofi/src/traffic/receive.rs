//! Receives, from the user's call to the completion entry.

use core::ffi::c_void;
use core::ptr;

use strait_core::buffer::copy::copy_short;
use strait_core::engine::{Fault, MessageId, Received, RequestId};
use strait_core::matching::{ANY_SOURCE, MaskedEnvelope, MaskedPattern, Pattern};
use strait_core::wire::{Key, SHORT_MAX};

use super::class::MessageClass;
use super::look::Look;
use super::pending_receive::{PendingReceive, Plain, Receipt};
use super::queues::{MessageBody, Unmatched, UnmatchedMessage};
use super::{OperationPurpose, Traffic};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::{UserBuffer, UserPart};
use crate::cause::ErrorCause;
use crate::operation::OperationKind;
use crate::wire::{Away, HAS_DATA, HeadKind, NAMED, ProviderHead, WANTS_ACK};

/// The source, flags and head of a message.
pub(super) type Met = (u32, u32, ProviderHead);

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
    pub(crate) fn receive(
        &mut self,
        lane: MessageClass,
        pattern: MaskedPattern,
        receive: PendingReceive,
    ) -> Ssize {
        let mut receive = receive;
        let may_ask = Self::may_ask(&pattern, &receive);
        if may_ask {
            self.take_heads(pattern.source);
        }
        while let Some(message) = self.lanes[lane as usize].take_message(&pattern) {
            match self.meet_kept(lane, receive, message) {
                Some(rest) => receive = rest,
                None => return 0,
            }
        }
        if may_ask {
            receive = self.speculate(lane, &pattern, receive);
        }
        let asked = receive.asked.as_ref().map(|asked| asked.id);
        let posted = self.lanes[lane as usize].post(pattern, receive);
        if let Some(id) = asked {
            if posted.is_err() {
                self.port.dismiss(id);
            }
            // The RTR has left together with what arrived meanwhile.
            self.drain();
        }
        match posted {
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
        let Unmatched { envelope, message } = message;
        let MaskedEnvelope { source, tag } = envelope;
        let UnmatchedMessage { data, flags, body } = message;
        let met = (source, flags, ProviderHead { tag, data });
        match body {
            MessageBody::Here { number, length, name } => {
                self.meet(lane, receive, met, (number, length), |this, to| this.take_kept(name, to))
            }
            MessageBody::Away(away) => self.fetch(lane, receive, met, away),
        }
    }

    /// Copies as much of a message that the engine has kept into `to` as fits, and forgets it.
    fn take_kept(&self, name: MessageId, to: &UserBuffer) {
        // SAFETY: the receive ends in this call, since the engine has the whole message.
        let received = unsafe { self.port.imrecv(name, to.cursor()) };
        if let Ok(Received::Pending(id)) = received {
            self.port.settle(id);
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
        let to = part.base();
        // SAFETY: the part has room for the bytes, and is the user's valid memory (invariant).
        unsafe { copy_short(bytes.as_ptr(), to, bytes.len()) };
        let entry = entry(lane, (context, to.cast()), flags, head, bytes.len());
        self.out.complete(OperationKind::Recv, entry, quiet, source);
        true
    }

    /// Gives a receive a message of `length` bytes, which have arrived: `fill` copies them. Returns
    /// the receive if it continues.
    #[inline(always)]
    pub(super) fn meet(
        &mut self,
        lane: MessageClass,
        receive: PendingReceive,
        (source, flags, head): Met,
        (number, length): (u32, usize),
        fill: impl FnOnce(&Self, &UserBuffer),
    ) -> Option<PendingReceive> {
        let (base, capacity) = (receive.buffer.base(), receive.buffer.length());
        fill(self, &receive.buffer);
        let wants_ack = flags & WANTS_ACK != 0;
        if receive.multi.is_none() && length <= capacity && !wants_ack {
            let entry = entry(lane, (receive.context, base), flags, head, length);
            self.out.complete(OperationKind::Recv, entry, receive.quiet, source);
            return None;
        }
        let (receipt, _, rest) = self.part(lane, receive, (source, flags, head), length, number);
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
        Away { length, key, .. }: Away,
    ) -> Option<PendingReceive> {
        let mut receive = receive;
        let asked = receive.asked.take();
        let (mut receipt, buffer, rest) = self.part(lane, receive, met, length, key.tag());
        receipt.ticket = receipt.multi.is_some().then(|| self.arrivals.expect(met.0));
        match asked {
            Some(asked) if key == Key::new(NAMED, asked.number) => {
                self.meet_asked(asked, receipt, buffer);
                return rest;
            }
            other => self.dismiss(other),
        }
        match self.fetch_into(met.0, key, &buffer) {
            Ok(id) => self.pending.push((id, OperationPurpose::Receive(receipt, buffer))),
            Err(cause) => self.received(receipt, cause),
        }
        rest
    }

    /// Starts to receive data into `buffer`, which stays as it is until the receive has ended.
    /// `Err`: the receive has ended, with a cause of failure or without.
    fn fetch_into(
        &self,
        source: u32,
        key: Key,
        buffer: &UserBuffer,
    ) -> Result<RequestId, Option<ErrorCause>> {
        let pattern = Pattern { context: key.context(), source, tag: key.tag() };
        // SAFETY: the receive is part of the operation to which the buffer belongs. `pending` keeps
        // a list of parts until the receive has ended.
        match unsafe { self.port.irecv(pattern, buffer.cursor()) } {
            Ok(Received::Pending(id)) => Ok(id),
            Ok(Received::Done(outcome)) => Err(outcome.err().map(ErrorCause::from)),
            Err(error) => Err(Some(error.into())),
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
                let is_last = receive.buffer.length() < self.min_multi.max(1);
                multi.begin(is_last);
                (front, (!is_last).then_some(receive))
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
    pub(super) fn received(&mut self, receipt: Receipt, cause: Option<ErrorCause>) {
        if receipt.multi.is_none() || self.arrivals.is_empty() {
            return self.tell_received(receipt, cause);
        }
        let (source, ticket) = (receipt.source, receipt.ticket);
        self.arrivals.end(source, ticket, (receipt, cause));
        while let Some((receipt, cause)) = self.arrivals.next(source) {
            self.tell_received(receipt, cause);
        }
    }

    fn tell_received(&mut self, receipt: Receipt, cause: Option<ErrorCause>) {
        let Receipt { lane, source, tag, data, flags, length, capacity, .. } = receipt;
        let mut entry = CqEntry {
            op_context: receipt.context,
            flags: entry_flags(lane, flags),
            len: length.min(capacity),
            buf: receipt.base,
            data,
            tag,
        };
        // The last message to end reports that the buffer belongs to the user again.
        if receipt.multi.is_some_and(|multi| multi.end()) {
            entry.flags |= flag::MULTI_RECV;
        }
        let failure = cause.filter(|cause| !cause.is_truncation());
        if flags & WANTS_ACK != 0 && failure.is_none() {
            let head = ProviderHead { tag: u64::from(receipt.number), data: 0 };
            // A sender that is gone needs no notice.
            let _ = self.tell(source, HeadKind::Delivered.key(0), head, &[]);
        }
        match failure {
            Some(cause) => self.out.fail(OperationKind::Recv, entry, 0, cause),
            None if length > capacity => {
                let cause = cause.unwrap_or(ErrorCause::Number(errno::ETRUNC));
                self.out.fail(OperationKind::Recv, entry, length - capacity, cause);
            }
            None => self.out.complete(OperationKind::Recv, entry, receipt.quiet, source),
        }
    }

    /// Ends a receive without a message.
    #[cold]
    pub(super) fn give_up(
        &mut self,
        lane: MessageClass,
        receive: &PendingReceive,
        cause: ErrorCause,
    ) {
        let to = (receive.context, receive.buffer.base());
        let mut entry = entry(lane, to, 0, ProviderHead::default(), 0);
        if receive.multi.is_some() {
            entry.flags |= flag::MULTI_RECV;
        }
        self.out.fail(OperationKind::Recv, entry, 0, cause);
    }

    /// Cancels the receive of `context`, if no message has met it.
    pub(crate) fn cancel(&mut self, context: *mut c_void) -> Ssize {
        for lane in [MessageClass::Tagged, MessageClass::Msg] {
            if self.cancel_asked(lane, context) {
                return 0;
            }
            let is_it = |_: &MaskedPattern, its: *mut c_void| its == context;
            if let Some((_, receive)) = self.lanes[lane as usize].withdraw(is_it) {
                self.give_up(lane, &receive, ErrorCause::Fault(Fault::Cancelled));
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
        let Some(Unmatched { envelope, message }) = queues.find_message(&pattern) else {
            let entry = blank(lane, context);
            self.out.fail(OperationKind::Recv, entry, 0, ErrorCause::Number(errno::ENOMSG));
            return;
        };
        let MaskedEnvelope { source, tag } = envelope;
        let (flags, len) = (entry_flags(lane, message.flags), message.length());
        let entry = CqEntry { flags, len, data: message.data, tag, ..blank(lane, context) };
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

    /// Receives the message that was claimed with the same context. The receive takes one message.
    pub(crate) fn receive_claimed(&mut self, lane: MessageClass, receive: PendingReceive) -> Ssize {
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

    fn discard(&mut self, Unmatched { envelope, message }: Unmatched) {
        let source = envelope.source;
        let nowhere = UserBuffer::of_part(UserPart::EMPTY);
        let number = match message.body {
            MessageBody::Here { number, name, .. } => {
                self.take_kept(name, &nowhere);
                number
            }
            MessageBody::Away(away) => {
                if let Ok(id) = self.fetch_into(source, away.key, &nowhere) {
                    self.pending.push((id, OperationPurpose::Drop));
                }
                away.key.tag()
            }
        };
        if message.flags & WANTS_ACK != 0 {
            let head = ProviderHead { tag: u64::from(number), data: 0 };
            let _ = self.tell(source, HeadKind::Delivered.key(0), head, &[]);
        }
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
