//! The words of one member's locks, for windows that keep them in the segment.

use core::ptr::NonNull;

use super::{LockWord, McsWord};
use crate::sync::CACHE_LINE;

/// The words of one member. Zeroed memory is the initial state, except for words that the window's
/// lock design presets.
///
/// | offset | bytes       | word      | written by                           |
/// |-------:|-------------|-----------|--------------------------------------|
/// |      0 | 8           | `cpu`     | processors of the node               |
/// |     64 | 8           | `network` | devices                              |
/// |    128 | 8           | `holders` | processors or devices, as the lock   |
/// |    192 | 8 · members | `shares`  | the member of each place             |
/// |        | 8 · members | `flags`   | this member's predecessor in a queue |
/// |        | 8 · members | `nexts`   | this member's successor in a queue   |
///
/// - `cpu` is the lock of this member's part, for processors.
/// - `network` is the lock of this member's part, for devices.
/// - `holders` names the member that holds the lock, or counts those that share it, for the queue
///   lock. Where the atomics of processors and devices agree, it is the lock of this member's part.
/// - `shares` says of the member in each place whether it shares the lock or is about to.
/// - `flags` says for the lock of the member in each place whether it is this member's turn.
/// - `nexts` names the member behind this one in the queue of the member in each place.
///
/// ```
/// use core::ptr::NonNull;
/// use strait_core::lock::{LockWords, WordAccess};
/// use strait_core::sync::CacheLine;
///
/// let mut memory = [const { CacheLine([0_u64; 8]) }; 4];
/// assert!(LockWords::bytes(2) <= size_of_val(&memory));
/// // SAFETY: the memory is aligned, zero and long enough, and nothing else uses it.
/// let words = unsafe { LockWords::new(NonNull::from(&mut memory).cast(), 2) };
/// let share = words.at(LockWords::share_offset(1));
/// share.access(WordAccess::Write(1));
/// assert_eq!(share.access(WordAccess::Read), 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LockWords {
    base: NonNull<u8>,
    members: u32,
}

const WORD: usize = size_of::<LockWord>();

impl LockWords {
    /// Returns the size in bytes of the words in a window of `members` members, a multiple of a
    /// cache line.
    #[must_use]
    pub const fn bytes(members: u32) -> usize {
        (Self::SHARES + 3 * members as usize * WORD).next_multiple_of(CACHE_LINE)
    }

    const SHARES: usize = 3 * CACHE_LINE;

    /// Offset of the word for processors.
    pub const CPU: usize = 0;

    /// Offset of the word for devices.
    pub const NETWORK: usize = CACHE_LINE;

    /// Offset of the only word of a lock where the atomics of processors and devices agree. It is
    /// `holders`, which is free in all designs but the queue lock, and which no design presets.
    pub const COHERENT: usize = 2 * CACHE_LINE;

    /// Returns the offset of the word in which the member in `place` says that it shares the lock.
    #[must_use]
    pub const fn share_offset(place: u32) -> usize {
        Self::SHARES + place as usize * WORD
    }

    /// Returns the offset of a word in the queue of member `target`, and the member that has the
    /// word.
    ///
    /// That member is `None` if the target itself has it. `lock` is the offset of the lock's own
    /// word.
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
            McsWord::Holders => (None, Self::COHERENT),
            McsWord::Flag(place) => (Some(place), own + row),
            McsWord::Next(place) => (Some(place), own + 2 * row),
        }
    }

    /// Describes the words at `base`.
    ///
    /// # Safety
    ///
    /// - `base` is aligned to a cache line.
    /// - It is valid for reads and writes of [`LockWords::bytes`] bytes while this value or a copy
    ///   of it is in use.
    /// - The words were zero before the first use.
    /// - All accesses to them go through such a value or through a device.
    #[must_use]
    pub const unsafe fn new(base: NonNull<u8>, members: u32) -> Self {
        Self { base, members }
    }

    /// Returns the word at `offset`.
    ///
    /// # Panics
    ///
    /// Panics if there is no word at `offset`.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, offset: usize) -> &LockWord {
        assert!(
            offset < Self::bytes(self.members) && offset.is_multiple_of(WORD),
            "no lock word at offset {offset}"
        );
        // SAFETY: the offset lies within the words (contract of `new`), and any bytes are a valid
        // atomic.
        unsafe { self.base.add(offset).cast().as_ref() }
    }
}
