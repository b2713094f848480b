//! Receives that wait for messages, and messages that have met their receives.

use core::cell::Cell;
use core::ffi::c_void;
use std::rc::Rc;

use strait_core::engine::{Outcome, RequestId};

use super::class::MessageClass;
use crate::buffer::{UserBuffer, UserPart};

/// A receive that waits for its message.
#[derive(Debug)]
pub(crate) struct PendingReceive {
    pub(crate) buffer: UserBuffer,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
    /// The receive takes several messages, one after the other.
    pub(crate) multi: Option<SharedMulti>,
    /// The request for its message.
    pub(super) asked: Option<AskedMessage>,
}

/// A message that a posted receive has asked for.
#[derive(Debug)]
pub(crate) struct AskedMessage {
    /// The number that the message was promised.
    pub(super) number: u32,
    /// Strait's receive of the message.
    pub(super) id: RequestId,
    /// The outcome of that receive, if it was taken before the head of the message came.
    pub(super) outcome: Option<Outcome>,
}

/// A buffer for many messages.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    /// The number of messages that are in transit to the buffer.
    under_way: Cell<u32>,
    /// It takes no further message.
    retired: Cell<bool>,
}

/// A buffer for many messages, which its messages share.
type SharedMulti = Rc<Multi>;

impl Multi {
    /// Counts a message in transit to the buffer. `is_last`: the buffer takes no further one.
    pub(super) fn begin(&self, is_last: bool) {
        self.under_way.set(self.under_way.get() + 1);
        self.retired.set(is_last);
    }

    /// Counts a message that has arrived. Returns whether the buffer belongs to the user again.
    pub(super) fn end(&self) -> bool {
        self.under_way.set(self.under_way.get() - 1);
        self.retired.get() && self.under_way.get() == 0
    }
}

/// A receive for one message into a buffer of one part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    pub(crate) part: UserPart,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
}

/// A matched message.
#[derive(Debug)]
pub(super) struct Receipt {
    pub(super) lane: MessageClass,
    pub(super) context: *mut c_void,
    pub(super) quiet: bool,
    pub(super) base: *mut c_void,
    pub(super) capacity: usize,
    pub(super) multi: Option<SharedMulti>,
    pub(super) source: u32,
    pub(super) tag: u64,
    pub(super) data: u64,
    pub(super) flags: u32,
    pub(super) length: usize,
    /// The number of the message in the notice of its delivery.
    pub(super) number: u32,
    /// The ticket of the message among those in buffers for many, if its data are in transit.
    pub(super) ticket: Option<u64>,
}

impl PendingReceive {
    /// Makes a receive, for many messages if `multi`.
    #[inline(always)]
    pub(crate) fn new(buffer: UserBuffer, context: *mut c_void, quiet: bool, multi: bool) -> Self {
        let multi = if multi { Some(Rc::default()) } else { None };
        Self { buffer, context, quiet, multi, asked: None }
    }

    /// Returns the receive as a plain one, if it takes one message into a buffer of one part.
    pub(super) fn as_plain(&self) -> Option<Plain> {
        let is_simple = self.multi.is_none() && self.asked.is_none();
        let part = self.buffer.only_part().filter(|_| is_simple)?;
        Some(Plain { part, context: self.context, quiet: self.quiet })
    }
}
