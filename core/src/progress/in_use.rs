//! What an engine has under way: all zero when nothing is.

use super::Engine;
use crate::layout::Corrupt;
use crate::memory::Memory;

/// Counts of what operations and messages hold, for whoever looks for something lost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InUse {
    /// Operations that have no outcome, or whose outcome nobody has asked for.
    pub requests: usize,
    /// Messages, or news of messages, that nobody has received.
    pub unexpected: usize,
    /// Large messages under way, and receives that called or asked for theirs.
    pub transfers: usize,
    /// Descriptors of this rank that a message uses.
    pub descriptors: usize,
    /// Cells of this rank that are not at home.
    pub cells: usize,
}

impl<M: Memory + Clone> Engine<M> {
    /// What is under way now.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] when the cells that came back cannot be counted.
    pub fn in_use(&mut self) -> Result<InUse, Corrupt> {
        self.cells.collect(&self.segment)?;
        Ok(InUse {
            requests: self.requests.len() as usize,
            unexpected: self.messages.len() as usize,
            transfers: (self.senders.len()
                + self.receivers.len()
                + self.calls.len()
                + self.announced.len()
                + self.readings.len()
                + self.invited.len()
                + self.writings.len()) as usize,
            descriptors: self.descriptors.in_use(),
            cells: self.cells.out(),
        })
    }
}
