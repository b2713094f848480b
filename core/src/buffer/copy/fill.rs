//! Copies into memory that another core read last, and reads next.

use super::bulk::{Stores, copy_bulk};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::opaque::copy_string;
use crate::sync::has_fast_strings;

/// Shortest copy, in bytes, for which the string instruction is worth its start.
const STRING_LEAST: usize = 2048;

/// Copies `length` bytes from memory of this rank to where a peer reads them next. Any later
/// release store publishes them.
///
/// Plain stores fetch each line from the core that read it, and non-temporal stores take it to
/// memory. The string instruction of some processors only takes the line over, which is faster than
/// either. On others the copy is made by `stores`. Copies that no peer reads differ
/// ([`super::copy_cached`]).
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not
/// overlap.
#[inline]
pub unsafe fn fill(source: *const u8, destination: *mut u8, length: usize, stores: Stores) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if fills_alike(length) {
        // SAFETY: the caller guarantees valid, separate ranges (contract of `fill`).
        return unsafe { copy_string(source, destination, length) };
    }
    // SAFETY: the caller guarantees valid, separate ranges (contract of `fill`).
    unsafe { copy_bulk(source, destination, length, stores) };
}

/// Returns whether [`fill`] copies `length` bytes alike by all kinds of stores.
#[inline]
#[must_use]
pub fn fills_alike(length: usize) -> bool {
    length >= STRING_LEAST && has_fast_strings()
}

#[cfg(test)]
mod tests {
    use super::super::testing::copies_whole;
    use super::*;

    #[test]
    fn every_length_at_every_alignment_is_copied_whole_and_nothing_beyond_it() {
        let step = if cfg!(miri) { 101 } else { 1 };
        let lengths = (STRING_LEAST - 100..STRING_LEAST + 300).step_by(step);
        copies_whole::<{ STRING_LEAST + 500 }>(lengths, |from, to, length| {
            // SAFETY: the arrays of `copies_whole` are long enough and distinct.
            unsafe { fill(from, to, length, Stores::Cached) };
        });
    }
}
