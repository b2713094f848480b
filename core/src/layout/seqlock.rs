//! Words that one rank writes and any observer reads, whole or not at all.
//!
//! A sequence number that is odd during a write distinguishes a torn read from a complete one. The
//! reader writes nothing, so it needs no help from the writer, which may be stopped or dead.

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, order};

/// Writes `values` to `words`. Only one thread at a time calls it.
pub(super) fn write<const N: usize>(
    sequence: &AtomicU64,
    words: &[AtomicU64; N],
    values: [u64; N],
) {
    // The number becomes odd, whatever another process may have left there.
    let writing = sequence.load(Relaxed) | 1;
    sequence.store(writing, Relaxed);
    for (place, word) in words.iter().zip(values) {
        // ORDER waiting/1: Release, pairs with waiting/3: a reader that sees the word also sees
        // that a write is in progress.
        place.store(word, order("waiting/1", Release));
    }
    // ORDER waiting/2: Release, pairs with waiting/4: a reader that sees the end of the write
    // sees all of it.
    sequence.store(writing.wrapping_add(1), order("waiting/2", Release));
}

/// Returns the words of a complete write, or `None` if the words were written meanwhile.
pub(super) fn read<const N: usize>(
    sequence: &AtomicU64,
    words: &[AtomicU64; N],
) -> Option<[u64; N]> {
    // ORDER waiting/4: Acquire, pairs with waiting/2: the words are no older than the number.
    let before = sequence.load(order("waiting/4", Acquire));
    // ORDER waiting/3: Acquire, pairs with waiting/1: if a word is of a later write, the number
    // read below is later too.
    let values = core::array::from_fn(|at| words[at].load(order("waiting/3", Acquire)));
    let after = sequence.load(Relaxed);
    (before == after && before.is_multiple_of(2)).then_some(values)
}
