//! Receives that a peer on another node may write to.

use crate::buffer::Part;
use crate::hca::Region;
use crate::layout::{Call, Wait};
use crate::wire::{self, Key, Turn};

/// A receive that has sent an RTR: the sender may write its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Invited {
    pub(super) peer: u32,
    pub(super) key: Key,
    pub(super) turn: Turn,
    pub(super) part: Part,
    /// Whether its RTR was sent or never will be. If not, nothing is registered.
    pub(super) told: bool,
    pub(super) region: Option<Region>,
    /// Whether the answer to a retraction is still to come.
    pub(super) retracting: bool,
    /// The length of its message, while that is being written.
    pub(super) total: Option<usize>,
    /// The receive's request. `None` when the receive is over, or met another message.
    pub(super) request: Option<u32>,
}

impl Invited {
    /// Returns what the receive waits for while it is being written.
    pub(super) fn wait(&self) -> Wait {
        Wait {
            tag: Some(self.key.tag()),
            context: Some(self.key.context()),
            bytes: Some(self.part.length as u64),
            ..Wait::on(Call::Recv, self.peer)
        }
    }

    pub(super) const fn asked(&self, place: u32) -> wire::RtrId {
        wire::RtrId { place, turn: self.turn }
    }
}
