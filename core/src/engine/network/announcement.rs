//! Messages that were announced to a peer on another node.

use super::exposure::Exposure;
use crate::wire::DeferredMessageId;

/// A message that its receiver may read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) destination: u32,
    pub(super) name: DeferredMessageId,
    pub(super) exposure: Exposure,
    /// Whether the peer was asked to stop reading it.
    pub(super) retracting: bool,
}

impl Announced {
    pub(super) const fn destination(&self) -> u32 {
        self.destination
    }
}
