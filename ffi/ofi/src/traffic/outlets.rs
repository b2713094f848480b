//! Where the ends of operations are told: completion queues and counters.

use core::ptr;

use crate::abi::{CqEntry, CqErrEntry, flag};
use crate::cntr::Cntr;
use crate::cq::Cq;

/// Kinds of operations, as counters tell them apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub(crate) enum Op {
    Send = 0,
    Recv = 1,
    Read = 2,
    Write = 3,
    RemoteRead = 4,
    RemoteWrite = 5,
}

/// The flags by which counters are bound to them.
pub(crate) const OPS: [(Op, u64); 6] = [
    (Op::Send, flag::SEND),
    (Op::Recv, flag::RECV),
    (Op::Read, flag::READ),
    (Op::Write, flag::WRITE),
    (Op::RemoteRead, flag::REMOTE_READ),
    (Op::RemoteWrite, flag::REMOTE_WRITE),
];

/// All that are bound to an endpoint, null where nothing is. libfabric's users close them after the endpoint.
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
    const fn queue(&self, op: Op) -> *const Cq {
        match op {
            Op::Recv | Op::RemoteRead | Op::RemoteWrite => self.rx,
            Op::Send | Op::Read | Op::Write => self.tx,
        }
    }

    /// An operation ended well. `quiet`: without an entry.
    #[inline(always)]
    pub(crate) fn complete(&self, op: Op, entry: CqEntry, quiet: bool, source: u32) {
        self.count(op, true);
        // SAFETY: null, or bound: the user closes it after the endpoint.
        if !quiet && let Some(cq) = unsafe { self.queue(op).as_ref() } {
            cq.complete(entry, source);
        }
    }

    /// An operation ended badly, which is never quiet.
    #[cold]
    pub(crate) fn fail(&self, op: Op, entry: CqEntry, olen: usize, err: i32) {
        self.count(op, false);
        let entry = CqErrEntry {
            entry,
            olen,
            err,
            prov_errno: err,
            err_data: ptr::null_mut(),
            err_data_size: 0,
        };
        // SAFETY: as in `complete`.
        if let Some(cq) = unsafe { self.queue(op).as_ref() } {
            cq.fail(entry);
        }
    }

    #[inline(always)]
    fn count(&self, op: Op, well: bool) {
        // SAFETY: as in `complete`.
        if let Some(counter) = unsafe { self.counters[op as usize].as_ref() } {
            counter.count(well);
        }
    }
}
