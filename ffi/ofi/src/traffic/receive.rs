//! Receiving: from the user's call to the completion entry.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use std::rc::Rc;

use strait_core::matching::Pattern as StraitPattern;
use strait_core::progress::{Cursor, Fault, Part, Received, RequestId, Sign};

use super::{Body, Kept, Lane, Op, Pending, SharedMulti, Traffic, errno_of};
use crate::abi::{CqEntry, Ssize, errno, flag};
use crate::buffer::Buffer;
use crate::matching::{ANY_SOURCE, Pattern, Seat, Waiting};
use crate::wire::{Away, DATA, HAS_DATA, Head, Kind, WANTS_ACK};

/// A receive that waits for its message.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) buffer: Buffer,
    pub(crate) context: *mut c_void,
    /// Without a completion entry.
    pub(crate) quiet: bool,
    /// Takes one message after the other.
    pub(crate) multi: Option<SharedMulti>,
}

/// A buffer for many messages.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    /// Messages that are on their way into it.
    under_way: Cell<u32>,
    /// It takes no further one.
    retired: Cell<bool>,
}

/// What is known of a message that has met its receive.
#[derive(Debug)]
pub(super) struct Receipt {
    lane: Lane,
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
    /// The number by which the sender is told of the delivery.
    number: u32,
    /// Its place among messages in buffers for many, if its data are on their way.
    ticket: Option<u64>,
}

/// What a look at the messages that wait is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    /// To know of it.
    Peek,
    /// To take it out, for a receive with the same context.
    Claim,
    /// To drop it.
    Discard,
}

impl Traffic {
    /// Whether a receive from `source` for one message can only be posted: no message waits, and nobody has to be called.
    #[inline(always)]
    pub(crate) fn may_post(&self, lane: Lane, source: u32) -> bool {
        let near = source == ANY_SOURCE || !self.port.is_elsewhere(source);
        near && self.lanes[lane as usize].is_all_taken()
    }

    /// Posts a receive that no message waits for.
    #[inline(always)]
    pub(crate) fn post(&mut self, lane: Lane, pattern: Pattern, receive: Receive) {
        self.lanes[lane as usize].post(pattern, receive);
    }

    /// Posts a receive, or gives it a message that waits, or as many as it takes. One from a source that is gone is ended when that is
    /// looked for.
    ///
    /// # Safety
    ///
    /// The user's memory is valid until the completion.
    pub(crate) unsafe fn receive(&mut self, lane: Lane, pattern: Pattern, receive: Receive) {
        let mut next = Some(receive);
        while let Some(receive) = next.take() {
            let Some(waiting) = self.lanes[lane as usize].take_message(&pattern) else {
                return self.post(lane, pattern, receive);
            };
            let multi = receive.multi.clone();
            self.meet_kept(lane, Seat::last(pattern), receive, waiting);
            if multi.is_some_and(|multi| !multi.retired.get()) {
                next = self.lanes[lane as usize].withdraw_last();
            }
        }
    }

    /// A receive gets a message that has waited for it.
    fn meet_kept(&mut self, lane: Lane, seat: Seat, receive: Receive, waiting: Waiting<Kept>) {
        let Waiting { source, tag, message: Kept { data, flags, body } } = waiting;
        let head = Head { tag, data };
        match body {
            Body::Here(number, bytes) => {
                self.port.let_go(source, bytes.len());
                self.meet(lane, seat, receive, (source, flags, head), (number, &bytes));
            }
            Body::Away(away) => {
                self.fetch(lane, seat, receive, (source, flags, head), away);
            }
        }
    }

    /// The first receive gets a short message, if it accepts it and both are simple: one part with room for all. Nearly every
    /// message goes this way, and its receive is looked at where it lies.
    #[inline(always)]
    pub(super) fn meet_first(
        &mut self,
        lane: Lane,
        (source, flags, head): (u32, u32, Head),
        bytes: &[u8],
    ) -> bool {
        let queue = &mut self.lanes[lane as usize];
        let Some(receive) = queue.first_for(source, head.tag) else { return false };
        // SAFETY: by the contract of `receive`.
        if receive.multi.is_some() || !unsafe { receive.buffer.fill_short(bytes) } {
            return false;
        }
        let entry = entry(lane, receive, (flags, head), bytes.len());
        let quiet = receive.quiet;
        // Of a simple one nothing is left to be dropped.
        core::mem::forget(queue.take_first());
        self.out.complete(Op::Recv, entry, quiet, source);
        true
    }

    /// A receive gets a message whose bytes are here.
    pub(super) fn meet(
        &mut self,
        lane: Lane,
        seat: Seat,
        receive: Receive,
        (source, flags, head): (u32, u32, Head),
        (number, bytes): (u32, &[u8]),
    ) {
        let capacity = receive.buffer.length();
        // SAFETY: by the contract of `receive`.
        unsafe { receive.buffer.fill(bytes) };
        let told = flags & WANTS_ACK != 0;
        if receive.multi.is_none() && bytes.len() <= capacity && !told {
            let entry = entry(lane, &receive, (flags, head), bytes.len());
            self.out.complete(Op::Recv, entry, receive.quiet, source);
            return;
        }
        let met = (source, flags, head);
        let (receipt, _) = self.part(lane, seat, receive, met, bytes.len(), number);
        self.received(receipt, None);
    }

    /// A receive gets a message whose data travel on their own.
    #[cold]
    #[inline(never)]
    pub(super) fn fetch(
        &mut self,
        lane: Lane,
        seat: Seat,
        receive: Receive,
        met: (u32, u32, Head),
        Away { length, number }: Away,
    ) {
        let (mut receipt, buffer) = self.part(lane, seat, receive, met, length, number);
        receipt.ticket = receipt.multi.is_some().then(|| self.arrivals.expect(met.0));
        // SAFETY: the user's memory by the contract of `receive`; a list of parts is kept with the buffer.
        let received = unsafe { self.fetch_into(met.0, number, buffer.cursor()) };
        match received {
            Ok(id) => self.pending.push((id, Pending::Receive(receipt, buffer))),
            Err(fault) => self.received(receipt, fault),
        }
    }

    /// Has Strait receive data. `Err`: it is over, ill or well.
    ///
    /// # Safety
    ///
    /// What `cursor` leads to stays valid until that is over.
    unsafe fn fetch_into(
        &mut self,
        source: u32,
        number: u32,
        cursor: Cursor,
    ) -> Result<RequestId, Option<Fault>> {
        let pattern = StraitPattern { context: DATA, source, tag: number };
        // SAFETY: by the contract.
        match unsafe { self.port.irecv(pattern, cursor) } {
            Ok(Received::Pending(id)) => Ok(id),
            Ok(Received::Done(outcome)) => Err(outcome.err()),
            Err(_) => Err(Some(Fault::PeerFailed { rank: source, sign: Sign::Ended })),
        }
    }

    /// Takes from a receive the buffer for one message of `length` bytes. A receive for many goes on if there is room.
    fn part(
        &mut self,
        lane: Lane,
        seat: Seat,
        mut receive: Receive,
        (source, flags, head): (u32, u32, Head),
        length: usize,
        number: u32,
    ) -> (Receipt, Buffer) {
        let multi = receive.multi.clone();
        let (context, quiet) = (receive.context, receive.quiet);
        let buffer = match &multi {
            None => receive.buffer,
            Some(multi) => {
                let front = receive.buffer.split(length);
                multi.under_way.set(multi.under_way.get() + 1);
                if receive.buffer.length() < self.min_multi.max(1) {
                    multi.retired.set(true);
                } else {
                    self.lanes[lane as usize].restore(seat, receive);
                }
                front
            }
        };
        let (base, capacity) = (buffer.base(), buffer.length());
        let Head { tag, data } = head;
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
        (receipt, buffer)
    }

    /// A receive is over. One of a buffer for many is told of when those before it are.
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
            // The last to end says so, for then the buffer is the user's again.
            if multi.retired.get() && multi.under_way.get() == 0 {
                entry.flags |= flag::MULTI_RECV;
            }
        }
        if flags & WANTS_ACK != 0 && fault.is_none_or(is_truncation) {
            let head = Head { tag: u64::from(receipt.number), data: 0 };
            // Whoever is gone need not know.
            let _ = self.tell(source, Kind::Delivered.key(0), head, &[]);
        }
        match fault {
            Some(fault) if !is_truncation(fault) => {
                self.out.fail(Op::Recv, entry, 0, errno_of(fault));
            }
            _ if length > capacity => {
                self.out.fail(Op::Recv, entry, length - capacity, errno::ETRUNC);
            }
            _ => self.out.complete(Op::Recv, entry, receipt.quiet, source),
        }
    }

    /// A receive ends without a message.
    #[cold]
    pub(super) fn give_up(&mut self, lane: Lane, receive: &Receive, err: i32) {
        let head = Head::default();
        let mut entry = CqEntry { len: 0, ..entry(lane, receive, (0, head), 0) };
        if receive.multi.is_some() {
            entry.flags |= flag::MULTI_RECV;
        }
        self.out.fail(Op::Recv, entry, 0, err);
    }

    /// Cancels the receive of `context`, if no message has met it.
    pub(crate) fn cancel(&mut self, context: *mut c_void) -> Ssize {
        for lane in [Lane::Tagged, Lane::Msg] {
            let is_it = |_: &Pattern, receive: &Receive| receive.context == context;
            if let Some(receive) = self.lanes[lane as usize].withdraw(is_it) {
                self.give_up(lane, &receive, errno::ECANCELED);
                return 0;
            }
        }
        -(errno::ENOENT as Ssize)
    }

    /// Looks for a message that waits. The answer is a completion of `context`, or its failure with `ENOMSG`.
    pub(crate) fn look(&mut self, lane: Lane, pattern: Pattern, look: Look, context: *mut c_void) {
        self.progress();
        let Some(waiting) = self.lanes[lane as usize].find(&pattern) else {
            let entry = blank(lane, context);
            self.out.fail(Op::Recv, entry, 0, errno::ENOMSG);
            return;
        };
        let Kept { data, flags, body } = &waiting.message;
        let len = match body {
            Body::Here(_, bytes) => bytes.len(),
            Body::Away(away) => away.length,
        };
        let flags = entry_flags(lane, *flags);
        let (tag, source) = (waiting.tag, waiting.source);
        let entry = CqEntry { flags, len, data: *data, tag, ..blank(lane, context) };
        if look != Look::Peek
            && let Some(Waiting { message, .. }) = self.lanes[lane as usize].take_message(&pattern)
        {
            match look {
                Look::Discard => self.discard(source, message),
                _ => self.claimed.push((context, source, tag, message)),
            }
        }
        self.out.complete(Op::Recv, entry, false, source);
    }

    /// Receives the message that was claimed with the same context.
    ///
    /// # Safety
    ///
    /// As for [`Traffic::receive`].
    pub(crate) unsafe fn receive_claimed(&mut self, lane: Lane, receive: Receive) -> Ssize {
        let place = self.claimed.iter().position(|claimed| claimed.0 == receive.context);
        let Some(place) = place else { return -(errno::ENOENT as Ssize) };
        let (_, source, tag, message) = self.claimed.remove(place);
        let pattern = Pattern { source, tag, ignore: 0 };
        self.meet_kept(lane, Seat::last(pattern), receive, Waiting { source, tag, message });
        0
    }

    /// Drops the message that was claimed with `context`.
    pub(crate) fn discard_claimed(&mut self, lane: Lane, context: *mut c_void) -> Ssize {
        let place = self.claimed.iter().position(|claimed| claimed.0 == context);
        let Some(place) = place else { return -(errno::ENOENT as Ssize) };
        let (_, source, _, message) = self.claimed.remove(place);
        self.discard(source, message);
        self.out.complete(Op::Recv, blank(lane, context), false, source);
        0
    }

    fn discard(&mut self, source: u32, message: Kept) {
        let number = match message.body {
            Body::Here(number, bytes) => {
                self.port.let_go(source, bytes.len());
                number
            }
            Body::Away(away) => {
                let nowhere = Part { base: ptr::NonNull::dangling(), length: 0 };
                // SAFETY: no byte is written.
                let dropped =
                    unsafe { self.fetch_into(source, away.number, Cursor::contiguous(nowhere)) };
                if let Ok(id) = dropped {
                    self.pending.push((id, Pending::Drop));
                }
                away.number
            }
        };
        if message.flags & WANTS_ACK != 0 {
            let head = Head { tag: u64::from(number), data: 0 };
            let _ = self.tell(source, Kind::Delivered.key(0), head, &[]);
        }
    }
}

impl Receive {
    /// A new receive, for many messages if `multi`.
    #[inline(always)]
    pub(crate) fn new(buffer: Buffer, context: *mut c_void, quiet: bool, multi: bool) -> Self {
        let multi = if multi { Some(Rc::default()) } else { None };
        Self { buffer, context, quiet, multi }
    }
}

#[inline(always)]
const fn entry_flags(lane: Lane, flags: u32) -> u64 {
    let data = if flags & HAS_DATA != 0 { flag::REMOTE_CQ_DATA } else { 0 };
    flag::RECV | lane.flag() | data
}

#[inline(always)]
fn entry(lane: Lane, receive: &Receive, (flags, head): (u32, Head), len: usize) -> CqEntry {
    CqEntry {
        op_context: receive.context,
        flags: entry_flags(lane, flags),
        len,
        buf: receive.buffer.base(),
        data: head.data,
        tag: head.tag,
    }
}

const fn blank(lane: Lane, op_context: *mut c_void) -> CqEntry {
    let flags = flag::RECV | lane.flag();
    CqEntry { op_context, flags, len: 0, buf: ptr::null_mut(), data: 0, tag: 0 }
}

const fn is_truncation(fault: Fault) -> bool {
    matches!(fault, Fault::Truncated { .. })
}
