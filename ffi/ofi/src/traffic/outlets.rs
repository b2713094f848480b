//! The places where the ends of operations are reported: completion queues and counters.

use crate::abi::CqEntry;
use crate::cause::ErrorCause;
use crate::completions::CompletionEntries;
use crate::counts::TrafficCounts;
use crate::object::ObjectRef;
use crate::operation::OperationKind;

/// The queues and counters that are bound to an endpoint. The users of libfabric close them after
/// the endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outlets {
    pub(crate) tx: Option<ObjectRef<CompletionEntries>>,
    pub(crate) rx: Option<ObjectRef<CompletionEntries>>,
    pub(crate) counters: [Option<ObjectRef<TrafficCounts>>; 6],
}

impl Outlets {
    #[inline(always)]
    const fn queue(&self, op: OperationKind) -> Option<ObjectRef<CompletionEntries>> {
        match op {
            OperationKind::Recv | OperationKind::RemoteRead | OperationKind::RemoteWrite => self.rx,
            OperationKind::Send | OperationKind::Read | OperationKind::Write => self.tx,
        }
    }

    /// Reports an operation that succeeded. `quiet`: without an entry.
    #[inline(always)]
    pub(crate) fn complete(&self, op: OperationKind, entry: CqEntry, quiet: bool, source: u32) {
        self.count(op, true);
        if !quiet && let Some(entries) = self.queue(op) {
            entries.complete(entry, source);
        }
    }

    /// Reports an operation that failed, which always has an entry. `olen`: bytes of the message
    /// that did not fit.
    #[cold]
    pub(crate) fn fail(&self, op: OperationKind, entry: CqEntry, olen: usize, cause: ErrorCause) {
        self.count(op, false);
        if let Some(entries) = self.queue(op) {
            entries.fail(entry, olen, cause);
        }
    }

    #[inline(always)]
    fn count(&self, op: OperationKind, well: bool) {
        if let Some(counts) = self.counters[op as usize] {
            counts.count(well);
        }
    }
}
