//! Receives that have met an announced message, and have its sender write it.

use crate::buffer::{Cursor, Part};
use crate::hca::Region;
use crate::layout::{Call, Wait};
use crate::lmt::Chosen;
use crate::matching::Envelope;
use crate::wire::Offer;

/// A receive to which the sender of an announced message is to write it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClearToSend {
    pub(super) source: u32,
    pub(super) tag: u32,
    pub(super) offer: Offer,
    /// The whole buffer, which is in one part.
    pub(super) buffer: Cursor,
    /// Bytes to be written.
    pub(super) wanted: usize,
    /// The registration of the buffer. `None` until the CTS is sent.
    pub(super) region: Option<Region>,
    /// The receive's request.
    pub(super) request: u32,
    /// The place of the control message to the sender.
    pub(super) word: u32,
    pub(super) chosen: Chosen,
    /// The time at which the CTS was made, if the message is measured.
    pub(super) began: Option<u64>,
}

impl ClearToSend {
    /// Returns the state of the receive `request`. No CTS is sent yet.
    pub(super) const fn new(
        (request, envelope): (u32, &Envelope),
        (offer, wanted): (Offer, usize),
        buffer: Cursor,
        (word, chosen): (u32, Chosen),
    ) -> Self {
        let Envelope { source, tag, .. } = *envelope;
        let (region, began) = (None, None);
        Self { source, tag, offer, buffer, wanted, region, request, word, chosen, began }
    }

    /// Returns the place of the message.
    pub(super) fn part(&self) -> Option<Part> {
        let part = self.buffer.in_one_part()?;
        Some(Part { length: self.wanted, ..part })
    }

    /// Returns what the receive waits for.
    pub(super) fn wait(&self) -> Wait {
        let (tag, bytes) = (Some(self.tag), Some(self.wanted as u64));
        Wait { tag, bytes, ..Wait::on(Call::Recv, self.source) }
    }
}
