//! The active messages of an origin to one target, as the origin sees them (`[OneSided04]` §3.3.2).
//!
//! The operands travel to the target once. Only an acknowledgement comes back.

use core::ptr::NonNull;

use super::{
    ActiveMessage, Lane, LaneError, OPERAND_BUFFER_BYTES, OPERAND_BUFFERS, STRIPE, Signal,
};
use crate::buffer::{Direction, Part};
use crate::hca::{Hca, RemoteAddress, Sge};

/// The memory that an origin uses for active messages to one target.
///
/// The images are [`super::AmMemory::IMAGES`] bytes long. [`super::AmMemory`] has the rest.
#[derive(Clone, Copy, Debug)]
pub struct OperandBuffers {
    /// Images of the operand buffers, aligned to 8 bytes.
    pub images: NonNull<u8>,
    /// Buffers for the old values.
    pub answers: NonNull<u8>,
    /// Local key of the images.
    pub key: u32,
    /// The operand buffers at the target.
    pub there: RemoteAddress,
}

/// The state of an origin's active messages to one target. Its default is the initial state.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmSender {
    sent: u64,
    /// True after the write of the next operand buffer was posted, and before the wake-up of the
    /// handler was.
    filled: bool,
    /// Number of the last request that wrote each operand buffer.
    asked: [u64; OPERAND_BUFFERS],
}

impl AmSender {
    /// Returns true if no active message was sent.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.sent == 0
    }

    /// Returns true if an operand buffer is free for the next message. `done` counts the messages
    /// that the target has carried out.
    #[must_use]
    pub fn have_room(&self, done: &Signal) -> bool {
        done.has_reached((self.sent + 1).saturating_sub(OPERAND_BUFFERS as u64))
    }

    /// Returns true if the device has finished with the image of the next message's operand buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::is_done`].
    pub fn have_image(&self, lane: &Lane) -> Result<bool, LaneError> {
        lane.is_done(self.asked[slot(self.sent)])
    }

    /// Returns true if the target has carried out all messages.
    #[must_use]
    pub fn are_done(&self, done: &Signal) -> bool {
        done.has_reached(self.sent)
    }

    /// Prepares the next message. `operands` may be changed when this returns.
    ///
    /// # Safety
    ///
    /// Operand buffer and image of the next message are free ([`AmSender::have_room`],
    /// [`AmSender::have_image`]). Nothing else accesses the images. `operands` is valid for reads
    /// and fits an operand buffer.
    pub unsafe fn fill(
        &self,
        operand_buffers: &OperandBuffers,
        active_message: &ActiveMessage,
        operands: Part,
    ) {
        let image = image(operand_buffers, self.sent);
        // SAFETY: the caller guarantees a free, exclusive image and valid operands that fit it
        // (contract of `fill`).
        unsafe {
            active_message.write(image);
            let into = ActiveMessage::operands(image);
            operands.base.copy_to_nonoverlapping(into, operands.length);
        }
    }

    /// Posts the requests that send the prepared message, with `length` bytes of operands in one
    /// message of the device.
    ///
    /// Returns true if it is sent; otherwise the caller calls again.
    ///
    /// # Safety
    ///
    /// The images stay registered until the target has carried out the message or the connection is
    /// closed.
    ///
    /// # Errors
    ///
    /// The errors of [`Lane::write`].
    pub unsafe fn send<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
        operand_buffers: &OperandBuffers,
        length: usize,
    ) -> Result<bool, LaneError> {
        if !self.filled {
            let OperandBuffers { key, there, .. } = *operand_buffers;
            let base = image(operand_buffers, self.sent);
            let piece = Sge { base, length: ActiveMessage::filled(length) as u32, key };
            let there = there.after(slot(self.sent) * OPERAND_BUFFER_BYTES);
            // SAFETY: the image stays registered (contract of `send`), and is not changed until the
            // request is done.
            let asked = unsafe { lane.transfer(hca, Direction::Write, piece, there) }?;
            let Some(asked) = asked else { return Ok(false) };
            hca.copied(length);
            (self.asked[slot(self.sent)], self.filled) = (asked, true);
        }
        if lane.wake(hca)?.is_none() {
            return Ok(false);
        }
        (self.sent, self.filled) = (self.sent + 1, false);
        Ok(true)
    }

    /// Copies the old values that the last message asked for. The target has carried it out.
    ///
    /// # Safety
    ///
    /// `into` is valid for writes and has the length of the old values.
    pub unsafe fn take(&self, operand_buffers: &OperandBuffers, into: Part) {
        // SAFETY: the target has written the old values before it acknowledged; `into` is valid
        // (contract of `take`).
        unsafe {
            let answer = operand_buffers.answers.add(slot(self.sent - 1) * STRIPE);
            answer.copy_to_nonoverlapping(into.base, into.length);
        }
    }
}

/// Returns the index of the operand buffer of a message.
const fn slot(number: u64) -> usize {
    number as usize % OPERAND_BUFFERS
}

const fn image(operand_buffers: &OperandBuffers, number: u64) -> NonNull<u8> {
    // SAFETY: the index is less than [`OPERAND_BUFFERS`], the number of images.
    unsafe { operand_buffers.images.add(slot(number) * OPERAND_BUFFER_BYTES) }
}
