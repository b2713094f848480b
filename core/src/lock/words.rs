//! The words of one member's locks, where a window has them in the segment.

use core::ptr::NonNull;

use super::{LockWord, McsWord};
use crate::sync::CACHE_LINE;

/// The words of one member. Zeroed memory is the first state, but for what the window's design presets.
///
/// | offset | size | what | written by |
/// |---|---|---|---|
/// | 0 | 8 | `cpu`: the lock of this member's part, for processors | processors of the node |
/// | 64 | 8 | `network`: the same, for devices | devices |
/// | 128 | 8 | `sharers`: how many share it, beside a queue | as the lock |
/// | 192 | 8 · members | `shares`: whether the member in each place shares it, or is about to | that member |
/// | | 8 · members | `flags`: whether it is this member's turn at the lock of the member in each place | the one before it in the queue |
/// | | 8 · members | `nexts`: who is behind this member there | the one behind it |
#[derive(Clone, Copy, Debug)]
pub struct Words {
    base: NonNull<u8>,
    members: u32,
}

const WORD: usize = size_of::<LockWord>();

impl Words {
    /// Bytes, in a window of `members` members: a multiple of a cache line.
    #[must_use]
    pub const fn bytes(members: u32) -> usize {
        (Self::SHARES + 3 * members as usize * WORD).next_multiple_of(CACHE_LINE)
    }

    const SHARES: usize = 3 * CACHE_LINE;

    /// Where the word for processors is.
    pub const CPU: usize = 0;

    /// Where the word for devices is.
    pub const NETWORK: usize = CACHE_LINE;

    /// Where a member says that it shares the lock.
    #[must_use]
    pub const fn share_offset(place: u32) -> usize {
        Self::SHARES + place as usize * WORD
    }

    /// Where a word of the queue of the member in place `target` lies, and in whose words: `None` for the target's. `lock` is where the
    /// lock's own is.
    #[must_use]
    pub const fn mcs_offset(
        word: McsWord,
        target: u32,
        members: u32,
        lock: usize,
    ) -> (Option<u32>, usize) {
        let (own, row) = (Self::share_offset(target), members as usize * WORD);
        match word {
            McsWord::Lock => (None, lock),
            McsWord::Sharers => (None, 2 * CACHE_LINE),
            McsWord::Flag(place) => (Some(place), own + row),
            McsWord::Next(place) => (Some(place), own + 2 * row),
        }
    }

    /// The words at `base`.
    ///
    /// # Safety
    ///
    /// `base` is aligned to a cache line and valid for reads and writes of [`Words::bytes`] bytes as long as these or a copy of them are
    /// used; they were zero before the first use, and everybody reaches them by these or through a device.
    #[must_use]
    pub const unsafe fn new(base: NonNull<u8>, members: u32) -> Self {
        Self { base, members }
    }

    /// The word at `offset`.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, offset: usize) -> &LockWord {
        assert!(
            offset < Self::bytes(self.members) && offset.is_multiple_of(WORD),
            "word at {offset}"
        );
        // SAFETY: within the words (contract of `new`), and an atomic, for which any bytes are valid.
        unsafe { self.base.add(offset).cast().as_ref() }
    }
}
