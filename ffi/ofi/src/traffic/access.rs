//! Reads and writes of remote memory, as the user asks for them.

use core::ffi::c_void;

use crate::operation::OperationKind;

/// A read or write of remote memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAccess {
    pub(crate) op: OperationKind,
    pub(crate) rank: u32,
    /// The address of the first byte in the owner's process.
    pub(crate) address: u64,
    /// The owner's key of the region.
    pub(crate) key: u64,
    /// The data that the owner's completion reports.
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
    /// The buffer may be reused when the call returns.
    pub(crate) inject: bool,
}
