//! The requests of the program that are ours, by slot. `abi` makes handles of slots.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;

use strait::raw::{RawRequests as _, RequestId};
use strait::{Call, Status, Wait};

use super::base::Base;
use super::comms::Comm;
use super::operation::{Finished, StartedOperation};
use super::persistent_request::Persistent;
use super::request_view::RequestView;
use crate::abi::{self, Handle};

/// Slot of all sends that were over when they began.
pub(crate) const DONE: u32 = 0;

/// Slot of all receives from `PROC_NULL`.
pub(crate) const FROM_NONE: u32 = 1;

/// First slot of the table.
const FIRST: u32 = 2;

/// Takes the place of a free slot if there is none. It is no slot of the table.
const NONE_FREE: u32 = 0;

/// A request of the table.
pub(crate) enum RequestEntry {
    /// No request. `next` is the slot of the next free entry of the table, or [`NONE_FREE`].
    Free {
        next: u32,
    },
    /// A receive that was over when it began.
    Received(ReceivedMessage),
    /// One operation.
    One(StartedOperation),
    /// A send, and a receive, which gives the status.
    Pair(Box<[StartedOperation; 2]>),
    Persistent(Box<Persistent>),
}

impl RequestEntry {
    /// Returns the request of a persistent request's operation that goes on.
    #[inline(never)]
    fn persistent_operation(&self) -> Option<RequestId> {
        let Self::Persistent(persistent) = self else { return None };
        persistent.request()
    }
}

/// What an operation that has not failed reports to the program.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedMessage {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) bytes: usize,
}

impl ReceivedMessage {
    /// The report of a send.
    const SENT: Self = Self { source: abi::ANY_SOURCE, tag: abi::ANY_TAG, bytes: 0 };

    /// Returns what a message in a communicator reports.
    #[inline(always)]
    pub(crate) fn new(comm: &Comm, status: Status) -> Self {
        let Status { source, tag, bytes } = status;
        Self { source: comm.of_world(source), tag: tag as c_int, bytes }
    }

    const fn finished(self) -> Finished {
        let Self { source, tag, bytes } = self;
        Finished { source, tag, bytes, was_cancelled: false, error: None }
    }
}

/// The result of [`RequestTable::end_by`].
pub(crate) enum ShortEnd {
    Ended(ReceivedMessage),
    /// The operation goes on, or has failed.
    Pending,
    /// Only the long way tells. Nothing was done.
    Other,
}

/// Requests by slot.
#[derive(Default)]
pub(crate) struct RequestTable {
    entries: RefCell<Vec<RequestEntry>>,
    /// Slot of the first free entry, or [`NONE_FREE`].
    first_free: Cell<u32>,
    /// Number of operations that the program has not seen end.
    open: Cell<u32>,
    /// Operations of requests that the program freed.
    pub(crate) orphans: RefCell<Vec<StartedOperation>>,
}

impl RequestTable {
    /// Returns the handle of sends that were over when they began.
    #[inline(always)]
    pub(crate) fn done() -> Handle {
        abi::request_handle(DONE)
    }

    /// Returns whether there is a handle for one more request.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.first_free.get() != NONE_FREE
            || (self.entries.borrow().len() as u32) < abi::REQUESTS - FIRST
    }

    /// Adds a request and returns its handle. Returns `None` if there are no more handles.
    #[inline(always)]
    pub(crate) fn add(&self, entry: RequestEntry) -> Option<Handle> {
        let is_started = !matches!(entry, RequestEntry::Persistent(_));
        let handle = self.add_made(|| entry)?;
        if is_started {
            self.count_start();
        }
        Some(handle)
    }

    /// Adds an operation that has started and that `make` describes.
    ///
    /// The description is made where it stays. A copy would be read in wider pieces than those in
    /// which it was written (docs/instruction-count.md).
    #[inline(always)]
    pub(crate) fn add_started(&self, make: impl FnOnce() -> StartedOperation) -> Option<Handle> {
        let handle = self.add_made(|| RequestEntry::One(make()))?;
        self.count_start();
        Some(handle)
    }

    #[inline(always)]
    fn add_made(&self, make: impl FnOnce() -> RequestEntry) -> Option<Handle> {
        let slot = match self.first_free.get() {
            NONE_FREE => self.make_slot()?,
            slot => slot,
        };
        let mut entries = self.entries.borrow_mut();
        let entry = entries.get_mut((slot - FIRST) as usize)?;
        let RequestEntry::Free { next } = *entry else { return None };
        self.first_free.set(next);
        // SAFETY: the entry is free, so nothing is lost.
        unsafe { core::ptr::write(entry, make()) };
        Some(abi::request_handle(slot))
    }

    /// Makes a slot that no request has, which is the first free one then.
    #[cold]
    fn make_slot(&self) -> Option<u32> {
        let mut entries = self.entries.borrow_mut();
        let slot = entries.len() as u32 + FIRST;
        if slot >= abi::REQUESTS {
            return None;
        }
        entries.push(RequestEntry::Free { next: self.first_free.replace(slot) });
        abi::prepare_handle(slot);
        Some(slot)
    }

    /// Returns what the entry of a slot becomes that is the first free one from now on.
    #[inline(always)]
    fn freed(&self, slot: u32) -> RequestEntry {
        RequestEntry::Free { next: self.first_free.replace(slot) }
    }

    pub(crate) fn count_start(&self) {
        self.open.set(self.open.get() + 1);
    }

    fn count_end(&self) {
        self.open.set(self.open.get() - 1);
    }

    /// Returns whether some operation is not known to be over.
    #[inline]
    pub(crate) fn has_open(&self) -> bool {
        self.open.get() > 0 || !self.orphans.borrow().is_empty()
    }

    /// Returns whether the program has ended or freed all its requests.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.borrow().iter().all(|entry| matches!(entry, RequestEntry::Free { .. }))
            && self.orphans.borrow().is_empty()
    }

    /// Calls `act` with the entry of a slot of the table.
    pub(crate) fn with<R>(&self, slot: u32, act: impl FnOnce(&mut RequestEntry) -> R) -> Option<R> {
        let mut entries = self.entries.borrow_mut();
        entries.get_mut(slot.checked_sub(FIRST)? as usize).map(act)
    }

    /// Returns the state of a request. Makes no progress.
    pub(crate) fn view(&self, base: &Base, slot: u32) -> RequestView {
        if slot < FIRST {
            return RequestView::Over;
        }
        let view = self.with(slot, |entry| match entry {
            RequestEntry::Free { .. } => RequestView::Nothing,
            RequestEntry::Received(_) => RequestView::Over,
            RequestEntry::One(operation) => RequestView::of(operation.look(base)),
            RequestEntry::Pair(pair) => {
                let [send, recv] = &mut **pair;
                RequestView::of(send.look(base) & recv.look(base))
            }
            RequestEntry::Persistent(persistent) => persistent.view(base),
        });
        view.unwrap_or(RequestView::Nothing)
    }

    /// Returns whether a request has one operation, which goes on. Makes no progress. Calls need no
    /// lock.
    #[inline(always)]
    pub(crate) fn goes_on(&self, base: &Base, slot: u32) -> bool {
        let entries = self.entries.borrow();
        let place = slot.checked_sub(FIRST).map(|place| place as usize);
        let request = match place.and_then(|place| entries.get(place)) {
            Some(RequestEntry::One(operation)) => operation.unscoped.request(),
            Some(entry) => entry.persistent_operation(),
            None => None,
        };
        request.is_some_and(|request| base.world.goes_on(request))
    }

    /// Starts a persistent request, if it takes a short path. Calls need no lock. Returns whether
    /// it started.
    ///
    /// # Safety
    ///
    /// The contract of [`Persistent::start`] holds.
    #[inline]
    pub(crate) unsafe fn start_short(&self, base: &Base, slot: u32) -> bool {
        let started = self.with(slot, |entry| match entry {
            // SAFETY: the caller guarantees the same (contract of `start_short`).
            RequestEntry::Persistent(persistent) => unsafe { persistent.start_short(base) },
            _ => false,
        });
        let is_started = started == Some(true);
        if is_started {
            self.count_start();
        }
        is_started
    }

    /// Ends the operation of a persistent request, if it is over or `find` returns its status.
    /// Calls need no lock.
    #[inline]
    pub(crate) fn end_persistent_by(
        &self,
        slot: u32,
        find: impl FnOnce(RequestId) -> Option<Status>,
    ) -> Option<Finished> {
        let ended = self.with(slot, |entry| match entry {
            RequestEntry::Persistent(persistent) => persistent.end_by(find),
            _ => None,
        });
        ended.flatten().inspect(|_| self.count_end())
    }

    /// Returns what a request waits for, for observers. The call walks lists.
    pub(crate) fn wait_of(&self, base: &Base, slot: u32) -> Wait {
        let wait = self.with(slot, |entry| {
            let operation = match entry {
                RequestEntry::Free { .. } | RequestEntry::Received(_) => None,
                RequestEntry::One(operation) => Some(&*operation),
                RequestEntry::Pair(pair) => {
                    pair.iter().rev().find(|operation| !operation.unscoped.is_over())
                }
                RequestEntry::Persistent(persistent) => persistent.active().map(|active| &*active),
            };
            operation.map(|operation| operation.wait_of(base))
        });
        wait.flatten().unwrap_or(Wait::new(Call::Request))
    }

    /// Returns what a request reports that is over.
    pub(crate) fn report(&self, slot: u32) -> Finished {
        match slot {
            DONE => return Finished::EMPTY,
            FROM_NONE => return Finished::FROM_NONE,
            _ => {}
        }
        let report = self.with(slot, |entry| match entry {
            RequestEntry::Free { .. } => Finished::EMPTY,
            RequestEntry::Received(message) => message.finished(),
            RequestEntry::One(operation) => operation.finish(),
            RequestEntry::Pair(pair) => {
                let [send, recv] = &**pair;
                let (sent, mut received) = (send.finish(), recv.finish());
                received.error = received.error.or(sent.error);
                received
            }
            RequestEntry::Persistent(persistent) => persistent.report(),
        });
        report.unwrap_or(Finished::EMPTY)
    }

    /// Ends a request of one operation that has not failed, if `find` returns its status. Calls
    /// need no lock.
    #[inline(always)]
    pub(crate) fn end_by(
        &self,
        slot: u32,
        find: impl FnOnce(RequestId) -> Option<Status>,
    ) -> ShortEnd {
        let mut entries = self.entries.borrow_mut();
        let place = slot.checked_sub(FIRST).map(|place| place as usize);
        let Some(entry) = place.and_then(|place| entries.get_mut(place)) else {
            return ShortEnd::Other;
        };
        let message = match entry {
            RequestEntry::Received(message) => {
                let message = *message;
                core::mem::forget(core::mem::replace(entry, self.freed(slot)));
                message
            }
            RequestEntry::One(operation) => {
                let is_whole = operation.is_whole();
                let is_in_place = operation.is_send || !operation.is_packed();
                let request = operation.unscoped.request().filter(|_| is_in_place);
                let Some(request) = request else { return ShortEnd::Other };
                let Some(status) = find(request) else { return ShortEnd::Pending };
                let message = match operation.is_send {
                    true => ReceivedMessage::SENT,
                    false => ReceivedMessage::new(&operation.comm, status),
                };
                if is_whole {
                    // The drop of an entry looks at all its fields for something to free.
                    // SAFETY: the operation is whole and has a request, and is overwritten next.
                    unsafe { operation.drop_whole() };
                    core::mem::forget(core::mem::replace(entry, self.freed(slot)));
                } else {
                    *entry = self.freed(slot);
                }
                message
            }
            _ => return ShortEnd::Other,
        };
        self.count_end();
        ShortEnd::Ended(message)
    }

    /// Ends a request that is over, and returns the handle that the program has from now on: that
    /// of no request, or its own if it is persistent.
    pub(crate) fn end(&self, slot: u32, handle: Handle) -> Handle {
        let ended = self.with(slot, |entry| match entry {
            RequestEntry::Persistent(persistent) => (true, persistent.end()),
            RequestEntry::Free { .. } => (false, false),
            _ => {
                *entry = self.freed(slot);
                (false, true)
            }
        });
        let Some((is_kept, was_active)) = ended else { return abi::request_null() };
        if was_active {
            self.count_end();
        }
        if is_kept { handle } else { abi::request_null() }
    }

    /// Takes a request out of the table, which may go on.
    pub(crate) fn take(&self, slot: u32) -> Option<RequestEntry> {
        let taken = self.with(slot, |entry| match entry {
            RequestEntry::Free { .. } => None,
            _ => Some(core::mem::replace(entry, self.freed(slot))),
        });
        let entry = taken.flatten()?;
        if !matches!(&entry, RequestEntry::Persistent(persistent) if !persistent.is_active()) {
            self.count_end();
        }
        Some(entry)
    }

    /// Forgets the orphans that are over.
    pub(crate) fn look_at_orphans(&self, base: &Base) {
        if !self.orphans.borrow().is_empty() {
            self.orphans.borrow_mut().retain_mut(|operation| !operation.look(base));
        }
    }

    /// Returns what the first orphan waits for, for observers.
    pub(crate) fn wait_of_orphans(&self, base: &Base) -> Wait {
        let orphans = self.orphans.borrow();
        orphans.first().map_or(Wait::new(Call::Request), |operation| operation.wait_of(base))
    }

    /// Keeps an operation until it is over. The program has no request for it.
    pub(crate) fn adopt(&self, operation: StartedOperation) {
        if !operation.unscoped.is_over() {
            self.orphans.borrow_mut().push(operation);
        }
    }
}
