//! Messages that were announced to a peer on another node.

use crate::hca::Region;
use crate::wire::DeferredMessageId;

/// A message that its receiver may read.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Announced {
    pub(in crate::engine) destination: u32,
    pub(super) name: DeferredMessageId,
    pub(super) region: Region,
    /// Whether the peer was asked to stop reading it.
    pub(super) retracting: bool,
}
