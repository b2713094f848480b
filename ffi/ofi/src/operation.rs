//! The kinds of operations, as counters and rights distinguish them.

use strait_core::hca::Access;

use crate::abi::flag;

/// The kind of an operation.
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
pub(crate) const BOUND_BY: [(OperationKind, u64); 6] = [
    (OperationKind::Send, flag::SEND),
    (OperationKind::Recv, flag::RECV),
    (OperationKind::Read, flag::READ),
    (OperationKind::Write, flag::WRITE),
    (OperationKind::RemoteRead, flag::REMOTE_READ),
    (OperationKind::RemoteWrite, flag::REMOTE_WRITE),
];

impl OperationKind {
    /// Returns whether these rights to a peer's memory allow it.
    pub(crate) const fn may(self, rights: Access) -> bool {
        match self {
            Self::Read => rights.remote_read,
            _ => rights.remote_write,
        }
    }
}
