//! What a member of a window has in the segment besides its part.

use core::ptr::NonNull;

use super::{Signal, Table};
use crate::lock::{Lock, Words};
use crate::sync::CACHE_LINE;

/// Locks of one part.
pub const STRIPES: usize = 16;

/// Consecutive bytes of a part that one lock stands for. The lock of byte `b` is number `b / STRIPE % STRIPES`.
pub const STRIPE: usize = 16 * 1024;

/// The words of one member. Zeroed memory is the first state.
///
/// | offset | size | what | written by |
/// |---|---|---|---|
/// | 0 | 64 · 16 | `stripes`: the locks of accumulates to this member's part, each on its own line | any member |
/// | 1024 | 8 · members, rounded up to 64 | `posts`: the exposure that the member in each place has posted for this one | that member |
/// | | 8 · members, rounded up to 64 | `completions`: the access that the member in each place has completed | that member |
/// | | 8 · members, rounded up to 64 | `acknowledgements`: this member's errands that the member in each place has carried out | that member |
/// | | 40 · 63 | `attachments`: what this member has attached, if the window is dynamic | this member |
/// | | [`Words::bytes`] | the words of passive synchronisation ([`Words`]) | any member |
#[derive(Clone, Copy, Debug)]
pub struct Block {
    base: NonNull<u8>,
    members: u32,
}

impl Block {
    /// Bytes of a block in a window of `members` members.
    #[must_use]
    pub const fn bytes(members: u32) -> usize {
        Self::locks_offset(members) + Words::bytes(members)
    }

    /// Where in a block, in a window of `members`, the words of passive synchronisation begin.
    #[must_use]
    pub const fn locks_offset(members: u32) -> usize {
        (Self::attachments_offset(members) + size_of::<Table>()).next_multiple_of(CACHE_LINE)
    }

    const fn posts_offset() -> usize {
        STRIPES * CACHE_LINE
    }

    const fn completions_offset(members: u32) -> usize {
        Self::posts_offset() + Self::row(members)
    }

    const fn acknowledgements_offset(members: u32) -> usize {
        Self::completions_offset(members) + Self::row(members)
    }

    /// Where in a member's block, in a window of `members`, the table of what it has attached lies.
    #[must_use]
    pub const fn attachments_offset(members: u32) -> usize {
        Self::acknowledgements_offset(members) + Self::row(members)
    }

    /// Bytes of a signal for each member, and what keeps others off their lines.
    const fn row(members: u32) -> usize {
        (members as usize * size_of::<Signal>()).next_multiple_of(CACHE_LINE)
    }

    /// Where in a member's block the one in `place` says what it has posted: a word of 8 bytes.
    #[must_use]
    pub const fn post_offset(place: u32) -> usize {
        Self::posts_offset() + place as usize * size_of::<Signal>()
    }

    /// Where in a member's block, in a window of `members`, the one in `place` says what it has completed: a word of 8 bytes.
    #[must_use]
    pub const fn completion_offset(members: u32, place: u32) -> usize {
        Self::completions_offset(members) + place as usize * size_of::<Signal>()
    }

    /// Where in a member's block, in a window of `members`, the one in `place` says how many of its errands it has carried out: a
    /// word of 8 bytes.
    #[must_use]
    pub const fn acknowledgement_offset(members: u32, place: u32) -> usize {
        Self::acknowledgements_offset(members) + place as usize * size_of::<Signal>()
    }

    /// Where in a block the lock of the byte at `offset` of the part lies: a word of 8 bytes, for who reaches it through a device.
    #[must_use]
    pub const fn stripe_offset(offset: usize) -> usize {
        offset / STRIPE % STRIPES * CACHE_LINE
    }

    /// The block at `base`.
    ///
    /// # Safety
    ///
    /// `base` is aligned to a cache line and valid for reads and writes of [`Block::bytes`] bytes as long as the block or
    /// a copy of it is used; they were zero before the first use, and everybody reaches them through blocks.
    #[must_use]
    pub const unsafe fn new(base: NonNull<u8>, members: u32) -> Self {
        Self { base, members }
    }

    /// The lock of the byte at `offset` of the part.
    #[must_use]
    pub fn stripe(&self, offset: usize) -> &Lock {
        // SAFETY: within the block (contract of `new`), and an atomic, for which any bytes are valid.
        unsafe { self.base.add(Self::stripe_offset(offset)).cast().as_ref() }
    }

    /// The words of passive synchronisation.
    #[inline(always)]
    #[must_use]
    pub const fn locks(&self) -> Words {
        // SAFETY: within the block, and aligned as it is (contract of `new`).
        unsafe { Words::new(self.base.add(Self::locks_offset(self.members)), self.members) }
    }

    /// What the member in `place` has posted for this one.
    ///
    /// # Panics
    ///
    /// When there is no such place.
    #[inline(always)]
    #[must_use]
    pub fn posts(&self, place: u32) -> &Signal {
        self.signal(Self::posts_offset(), place)
    }

    /// What the member in `place` has completed.
    ///
    /// # Panics
    ///
    /// When there is no such place.
    #[inline(always)]
    #[must_use]
    pub fn completions(&self, place: u32) -> &Signal {
        self.signal(Self::completions_offset(self.members), place)
    }

    /// How many errands the member in `place` has carried out for this one.
    ///
    /// # Panics
    ///
    /// When there is no such place.
    #[must_use]
    pub fn acknowledgements(&self, place: u32) -> &Signal {
        self.signal(Self::acknowledgements_offset(self.members), place)
    }

    /// What the block's owner has attached.
    #[must_use]
    pub fn attachments(&self) -> &Table {
        // SAFETY: as in `stripe`: a table is made of atomics.
        unsafe { self.base.add(Self::attachments_offset(self.members)).cast().as_ref() }
    }

    #[inline(always)]
    fn signal(&self, offset: usize, place: u32) -> &Signal {
        assert!(place < self.members, "place {place} of {}", self.members);
        // SAFETY: as in `stripe`.
        unsafe { self.base.add(offset).cast::<Signal>().add(place as usize).as_ref() }
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::rma::Attachment;
    use crate::sync::CacheLine;

    #[test]
    fn every_word_has_its_own_place_within_the_block() {
        for members in [1, 8, 9] {
            let lines = Block::bytes(members).div_ceil(CACHE_LINE);
            let mut memory: Vec<_> = (0..lines).map(|_| CacheLine([0_u64; 8])).collect();
            // SAFETY: as long as the block is used, aligned to a line, and nobody else's.
            let block = unsafe { Block::new(NonNull::from(&mut memory[..]).cast(), members) };
            for place in 0..members {
                block.posts(place).raise(u64::from(place) + 1);
                block.completions(place).raise(u64::from(place) + 100);
                block.acknowledgements(place).raise(u64::from(place) + 200);
            }
            for stripe in 0..STRIPES {
                assert_eq!(block.stripe(stripe * STRIPE + 5).try_acquire(3), Ok(()));
                assert_eq!(block.stripe((STRIPES + stripe) * STRIPE).try_acquire(4), Err(3));
            }
            assert!(block.attachments().fill(Attachment::default()).is_some());
            for place in 0..members {
                assert_eq!(block.posts(place).number(), u64::from(place) + 1);
                assert_eq!(block.completions(place).number(), u64::from(place) + 100);
                assert_eq!(block.acknowledgements(place).number(), u64::from(place) + 200);
            }
        }
    }
}
