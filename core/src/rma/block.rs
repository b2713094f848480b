//! The words that a member of a window has in the segment beside its part.

use core::ptr::NonNull;

use super::{AttachmentTable, Signal, StripeBias};
use crate::lock::{LockWords, RevocableLock};
use crate::sync::{AtomicU64, CACHE_LINE};

/// Number of locks of one part.
pub const STRIPES: usize = 16;

/// Number of consecutive bytes of a part under one lock. The lock of byte `b` is number `b / STRIPE
/// % STRIPES`.
pub const STRIPE: usize = 16 * 1024;

/// The words of one member. Zeroed memory is the initial state.
///
/// | offset | bytes                         | field              | written by              |
/// |-------:|-------------------------------|--------------------|-------------------------|
/// |      0 | 64 · 16                       | `stripes`          | any member              |
/// |   1024 | 64                            | `revoked`          | any member              |
/// |   1088 | 8 · members, rounded up to 64 | `posts`            | the member in the place |
/// |        | 8 · members, rounded up to 64 | `completions`      | the member in the place |
/// |        | 8 · members, rounded up to 64 | `acknowledgements` | the member in the place |
/// |        | [`LockWords::bytes`]          | [`LockWords`]      | any member              |
/// |        | 8 · members, rounded up to 64 | `biases`           | the member in the place |
/// |        | 24 + 40 · 4095                | `attachments`      | this member             |
///
/// - `stripes` are the locks of accumulates to this member's part, each on its own line.
/// - `posts` has the exposure that the member in each place has posted for this one.
/// - `completions` has the access that the member in each place has completed.
/// - `acknowledgements` counts this member's active messages that the member in each place has
///   carried out.
/// - `attachments` describes the memory that this member has attached. Only a dynamic window has
///   it.
/// - [`LockWords`] are the words of passive synchronisation.
/// - `revoked` and `biases` are the words of [`StripeBias`].
#[derive(Clone, Copy, Debug)]
pub struct WindowBlock {
    base: NonNull<u8>,
    members: u32,
    is_dynamic: bool,
}

impl WindowBlock {
    /// Returns the size in bytes of a block in a window of `members` members.
    #[must_use]
    pub const fn bytes(members: u32) -> usize {
        Self::biases_offset(members) + Self::row(members)
    }

    /// Returns the size in bytes of a block in a dynamic window of `members` members.
    #[must_use]
    pub const fn dynamic_bytes(members: u32) -> usize {
        Self::attachments_offset(members) + size_of::<AttachmentTable>()
    }

    const fn biases_offset(members: u32) -> usize {
        Self::locks_offset(members) + LockWords::bytes(members)
    }

    const fn revoked_offset() -> usize {
        STRIPES * CACHE_LINE
    }

    /// Returns the offset of the words of passive synchronisation in a block, in a window of
    /// `members`.
    #[must_use]
    pub const fn locks_offset(members: u32) -> usize {
        Self::acknowledgements_offset(members) + Self::row(members)
    }

    const fn posts_offset() -> usize {
        Self::revoked_offset() + CACHE_LINE
    }

    const fn completions_offset(members: u32) -> usize {
        Self::posts_offset() + Self::row(members)
    }

    const fn acknowledgements_offset(members: u32) -> usize {
        Self::completions_offset(members) + Self::row(members)
    }

    /// Returns the offset of the table of attachments in a block, in a dynamic window of `members`.
    #[must_use]
    pub const fn attachments_offset(members: u32) -> usize {
        Self::bytes(members)
    }

    /// Returns the size in bytes of a row with one signal for each member. Padding keeps other
    /// words off its lines.
    const fn row(members: u32) -> usize {
        (members as usize * size_of::<Signal>()).next_multiple_of(CACHE_LINE)
    }

    /// Returns the offset in a block of the 8-byte word in which the member in `place` posts.
    #[must_use]
    pub const fn post_offset(place: u32) -> usize {
        Self::posts_offset() + place as usize * size_of::<Signal>()
    }

    /// Returns the offset in a block, in a window of `members`, of the 8-byte word in which the
    /// member in `place` completes.
    #[must_use]
    pub const fn completion_offset(members: u32, place: u32) -> usize {
        Self::completions_offset(members) + place as usize * size_of::<Signal>()
    }

    /// Returns the offset in a block, in a window of `members`, of the 8-byte word for
    /// acknowledgements of the member in `place`. It counts the active messages that the member has
    /// carried out.
    #[must_use]
    pub const fn acknowledgement_offset(members: u32, place: u32) -> usize {
        Self::acknowledgements_offset(members) + place as usize * size_of::<Signal>()
    }

    /// Returns the offset in a block of the 8-byte lock of the byte at `offset` of the part. Used
    /// by members that access the lock through a device.
    #[must_use]
    pub const fn stripe_offset(offset: usize) -> usize {
        offset / STRIPE % STRIPES * CACHE_LINE
    }

    /// Describes the block at `base`.
    ///
    /// # Safety
    ///
    /// - `base` is aligned to a cache line.
    /// - It is valid for reads and writes of [`WindowBlock::bytes`] bytes while the block or a copy
    ///   of it is in use.
    /// - The bytes were zero before the first use.
    /// - All accesses to them go through blocks.
    #[must_use]
    pub const unsafe fn new(base: NonNull<u8>, members: u32) -> Self {
        Self { base, members, is_dynamic: false }
    }

    /// Describes the block at `base` of a member of a dynamic window.
    ///
    /// # Safety
    ///
    /// As for [`WindowBlock::new`], but for [`WindowBlock::dynamic_bytes`] bytes.
    #[must_use]
    pub const unsafe fn dynamic(base: NonNull<u8>, members: u32) -> Self {
        Self { base, members, is_dynamic: true }
    }

    /// Returns the lock of the byte at `offset` of the part.
    #[must_use]
    pub fn stripe(&self, offset: usize) -> &RevocableLock {
        // SAFETY: the offset lies within the block (contract of `new`), and any bytes are a valid
        // atomic.
        unsafe { self.base.add(Self::stripe_offset(offset)).cast().as_ref() }
    }

    /// Returns the words that say which accumulates take the locks of stripes.
    #[inline(always)]
    #[must_use]
    pub const fn bias(&self) -> StripeBias<'_> {
        // SAFETY: the words lie within the block (contract of `new`), and any bytes are valid
        // atomics.
        unsafe {
            let words = self.base.add(Self::biases_offset(self.members)).cast::<AtomicU64>();
            let members = NonNull::slice_from_raw_parts(words, self.members as usize);
            let revoked = self.base.add(Self::revoked_offset()).cast();
            StripeBias::new(revoked.as_ref(), members.as_ref())
        }
    }

    /// Returns the words of passive synchronisation.
    #[inline(always)]
    #[must_use]
    pub const fn locks(&self) -> LockWords {
        // SAFETY: the words lie within the block and are aligned like it (contract of `new`).
        unsafe { LockWords::new(self.base.add(Self::locks_offset(self.members)), self.members) }
    }

    /// Returns the signal that the member in `place` raises when it posts for this one.
    ///
    /// # Panics
    ///
    /// Panics if the place does not exist.
    #[inline(always)]
    #[must_use]
    pub fn posts(&self, place: u32) -> &Signal {
        self.signal(Self::posts_offset(), place)
    }

    /// Returns the signal that the member in `place` raises when it completes.
    ///
    /// # Panics
    ///
    /// Panics if the place does not exist.
    #[inline(always)]
    #[must_use]
    pub fn completions(&self, place: u32) -> &Signal {
        self.signal(Self::completions_offset(self.members), place)
    }

    /// Returns the signal that counts the active messages that the member in `place` has carried
    /// out for this one.
    ///
    /// # Panics
    ///
    /// Panics if the place does not exist.
    #[must_use]
    pub fn acknowledgements(&self, place: u32) -> &Signal {
        self.signal(Self::acknowledgements_offset(self.members), place)
    }

    /// Returns the table of the block's owner's attachments, if the window is dynamic.
    #[must_use]
    pub fn attachments(&self) -> Option<&AttachmentTable> {
        // SAFETY: the offset lies within the block (contract of `dynamic`), and a table consists of
        // atomics.
        self.is_dynamic.then(|| unsafe {
            self.base.add(Self::attachments_offset(self.members)).cast().as_ref()
        })
    }

    #[inline(always)]
    fn signal(&self, offset: usize, place: u32) -> &Signal {
        /// A message made in place would take room on the stack of every caller.
        #[cold]
        #[inline(never)]
        fn no_such_place(place: u32, members: u32) -> ! {
            panic!("place {place} does not exist in {members} members")
        }

        if place >= self.members {
            no_such_place(place, self.members);
        }
        // SAFETY: the word lies within the block (contract of `new`), since the place exists. Any
        // bytes are a valid atomic.
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
    fn the_words_of_a_block_do_not_overlap() {
        for members in [1, 8, 9] {
            let lines = WindowBlock::dynamic_bytes(members).div_ceil(CACHE_LINE);
            let mut memory: Vec<_> = (0..lines).map(|_| CacheLine([0_u64; 8])).collect();
            let base = NonNull::from(&mut memory[..]).cast();
            // SAFETY: the memory lives as long as the block, is aligned to a line, and is used by
            // this test alone.
            let block = unsafe { WindowBlock::dynamic(base, members) };
            for place in 0..members {
                block.posts(place).raise(u64::from(place) + 1);
                block.completions(place).raise(u64::from(place) + 100);
                block.acknowledgements(place).raise(u64::from(place) + 200);
            }
            for stripe in 0..STRIPES {
                assert_eq!(block.stripe(stripe * STRIPE + 5).try_acquire(3), Ok(()));
                assert_eq!(block.stripe((STRIPES + stripe) * STRIPE).try_acquire(4), Err(3));
            }
            let attachments = block.attachments().expect("a dynamic window");
            assert!(attachments.fill(Attachment::default()).is_some());
            for place in 0..members {
                let stripe = StripeBias::stripe(place as usize * STRIPE);
                assert_eq!(block.bias().acquire(place, 0, stripe), stripe);
            }
            assert_eq!(block.bias().revoke(0, 1, u64::MAX), 0);
            for place in 0..members {
                assert_eq!(block.posts(place).number(), u64::from(place) + 1);
                assert_eq!(block.completions(place).number(), u64::from(place) + 100);
                assert_eq!(block.acknowledgements(place).number(), u64::from(place) + 200);
                let share = LockWords::share_offset(place);
                assert_eq!(block.locks().at(share).access(crate::lock::WordAccess::Read), 0);
            }
            assert_eq!(block.locks().at(LockWords::CPU).access(crate::lock::WordAccess::Read), 0);
        }
    }
}
