//! The errands of an origin to one target, as the origin sees them (`[OneSided04]` §3.3.2): the operands go there once, and nothing
//! comes back but word that it is done.

use core::ptr::NonNull;

use super::{Errand, Lane, LaneError, STRIPE, Signal, TRAY, TRAYS};
use crate::hca::{Hca, Piece, Remote};
use crate::progress::{Part, Way};

/// Where an origin has images of its trays at a target, and where those are: see [`super::ErrandMemory`].
#[derive(Clone, Copy, Debug)]
pub struct Trays {
    /// The images, aligned to 8 bytes.
    pub images: NonNull<u8>,
    /// What comes back.
    pub answers: NonNull<u8>,
    /// The local key of the images.
    pub key: u32,
    /// The trays.
    pub there: Remote,
}

/// How many errands were sent. Zero is the first state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errands {
    sent: u64,
    /// The tray of the next one is asked for, and what wakes the handler is not.
    filled: bool,
    /// The request that wrote each tray last.
    asked: [u64; TRAYS],
}

impl Errands {
    /// True when none was sent.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.sent == 0
    }

    /// Whether the next one finds a free tray. `done` is what the target says that it has carried out.
    #[must_use]
    pub fn have_room(&self, done: &Signal) -> bool {
        done.has_reached((self.sent + 1).saturating_sub(TRAYS as u64))
    }

    /// Whether the device is done with the image of that tray.
    ///
    /// # Errors
    ///
    /// As [`Lane::is_done`].
    pub fn have_image(&self, lane: &Lane) -> Result<bool, LaneError> {
        lane.is_done(self.asked[slot(self.sent)])
    }

    /// Whether the target has carried out all of them.
    #[must_use]
    pub fn are_done(&self, done: &Signal) -> bool {
        done.has_reached(self.sent)
    }

    /// Makes the next one ready: `operands` may be changed when this returns.
    ///
    /// # Safety
    ///
    /// There are room and image for it, and nobody else reaches the images; `operands` is valid for reads, and fits a tray.
    pub unsafe fn fill(&self, trays: &Trays, errand: &Errand, operands: Part) {
        let image = image(trays, self.sent);
        // SAFETY: by the contract.
        unsafe {
            errand.write(image);
            let into = Errand::operands(image);
            operands.base.copy_to_nonoverlapping(into, operands.length);
        }
    }

    /// Asks for what sends the one that was made ready, with `length` bytes of operands, in one message of the device. True: it is
    /// sent; else it is called again.
    ///
    /// # Safety
    ///
    /// The images stay registered until it is carried out, or the connection closed.
    ///
    /// # Errors
    ///
    /// As [`Lane::write`].
    pub unsafe fn send<H: Hca>(
        &mut self,
        lane: &mut Lane,
        hca: &mut H,
        trays: &Trays,
        length: usize,
    ) -> Result<bool, LaneError> {
        if !self.filled {
            let Trays { key, there, .. } = *trays;
            let base = image(trays, self.sent);
            let piece = Piece { base, length: Errand::filled(length) as u32, key };
            let there = there.after(slot(self.sent) * TRAY);
            // SAFETY: by the contract; it is left alone until the request is done.
            let asked = unsafe { lane.transfer(hca, Way::Write, piece, there) }?;
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

    /// Copies what was there, which the last one was to give, once it is done.
    ///
    /// # Safety
    ///
    /// `into` is valid for writes, and as long as what the errand gives.
    pub unsafe fn take(&self, trays: &Trays, into: Part) {
        // SAFETY: the target has written it there before it acknowledged; the rest by the contract.
        unsafe {
            let answer = trays.answers.add(slot(self.sent - 1) * STRIPE);
            answer.copy_to_nonoverlapping(into.base, into.length);
        }
    }
}

/// The tray of an errand.
const fn slot(number: u64) -> usize {
    number as usize % TRAYS
}

const fn image(trays: &Trays, number: u64) -> NonNull<u8> {
    // SAFETY: there are so many.
    unsafe { trays.images.add(slot(number) * TRAY) }
}
