//! The contexts of messages: those of programs in C, and those of this interface.

/// The last context that C may name. The contexts above it carry this interface's own messages.
/// `STRAIT_CONTEXT_MAX` in C.
pub(crate) const CONTEXT_MAX: u32 = 0x7fff_ffef;

/// The context of active messages.
pub(crate) const PACKETS: u32 = CONTEXT_MAX + 1;

/// The context of large messages that the embedder announces.
pub(crate) const LARGE: u32 = CONTEXT_MAX + 2;

/// The context of the messages that connect the pipes of the RDMA channel.
pub(crate) const PIPES: u32 = CONTEXT_MAX + 3;
