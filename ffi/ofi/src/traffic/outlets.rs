//! The places where the ends of operations are reported: completion queues and counters.

use core::ptr;

use crate::abi::{CqEntry, CqErrEntry, flag};
use crate::cntr::Cntr;
use crate::cq::Cq;

/// The kind of an operation, as counters distinguish it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub(crate) enum OperationKind {
    Send = 0,
    Recv = 1,
    Read = 2,
    Write = 3,
    RemoteRead = 4,
    RemoteWrite = 5,
}

/// The flags with which a counter is bound for each kind.
pub(crate) const OPS: [(OperationKind, u64); 6] = [
    (OperationKind::Send, flag::SEND),
    (OperationKind::Recv, flag::RECV),
    (OperationKind::Read, flag::READ),
    (OperationKind::Write, flag::WRITE),
    (OperationKind::RemoteRead, flag::REMOTE_READ),
    (OperationKind::RemoteWrite, flag::REMOTE_WRITE),
];

/// The queues and counters that are bound to an endpoint, or null. The users of libfabric close
/// them after the endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlets {
    pub(crate) tx: *const Cq,
    pub(crate) rx: *const Cq,
    pub(crate) counters: [*const Cntr; 6],
}

impl Default for Outlets {
    fn default() -> Self {
        Self { tx: ptr::null(), rx: ptr::null(), counters: [ptr::null(); 6] }
    }
}

impl Outlets {
    const fn queue(&self, op: OperationKind) -> *const Cq {
        match op {
            OperationKind::Recv | OperationKind::RemoteRead | OperationKind::RemoteWrite => self.rx,
            OperationKind::Send | OperationKind::Read | OperationKind::Write => self.tx,
        }
    }

    /// Reports an operation that succeeded. `quiet`: without an entry.
    #[inline(always)]
    pub(crate) fn complete(&self, op: OperationKind, entry: CqEntry, quiet: bool, source: u32) {
        self.count(op, true);
        // SAFETY: null, or bound: the user closes it after the endpoint.
        if !quiet && let Some(cq) = unsafe { self.queue(op).as_ref() } {
            cq.complete(entry, source);
        }
    }

    /// Reports an operation that failed, which always has an entry.
    #[cold]
    pub(crate) fn fail(&self, op: OperationKind, entry: CqEntry, olen: usize, err: i32) {
        self.count(op, false);
        let entry = CqErrEntry {
            entry,
            olen,
            err,
            prov_errno: err,
            err_data: ptr::null_mut(),
            err_data_size: 0,
        };
        // SAFETY: null, or bound: the user closes it after the endpoint.
        if let Some(cq) = unsafe { self.queue(op).as_ref() } {
            cq.fail(entry);
        }
    }

    #[inline(always)]
    fn count(&self, op: OperationKind, well: bool) {
        // SAFETY: null, or bound: the user closes it after the endpoint.
        if let Some(counter) = unsafe { self.counters[op as usize].as_ref() } {
            counter.count(well);
        }
    }
}
