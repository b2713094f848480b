//! Copies into memory that another core read last, and reads next.

use super::bulk::{Stores, copy_bulk};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
use super::opaque::copy_string;
use crate::sync::has_fast_strings;

/// Shortest copy, in bytes, for which the string instruction is worth its start.
const STRING_LEAST: usize = 2048;

/// Copies `length` bytes from memory of this rank to where a peer reads them next. Any later
/// release store publishes them.
///
/// Plain stores fetch each line from the core that read it, and non-temporal stores take it to
/// memory. The string instruction of some processors only takes the line over, which is faster than
/// either. On others the copy is made by `stores`. The same is not true of copies that no peer
/// reads: into memory that is in no cache, the string instruction took twice as long.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not
/// overlap.
#[inline]
pub unsafe fn fill(source: *const u8, destination: *mut u8, length: usize, stores: Stores) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
    if length >= STRING_LEAST && has_fast_strings() {
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
    use super::*;

    #[test]
    fn every_length_at_every_alignment_is_copied_whole_and_nothing_beyond_it() {
        const ROOM: usize = STRING_LEAST + 500;
        let source: [u8; ROOM] = core::array::from_fn(|at| (at * 7 + at / 251) as u8);
        let step = if cfg!(miri) { 101 } else { 1 };
        for (from, to) in [(0, 0), (1, 0), (0, 8), (3, 17), (16, 63)] {
            for length in (STRING_LEAST - 100..STRING_LEAST + 300).step_by(step) {
                let mut destination = [0xee_u8; ROOM];
                // SAFETY: both arrays are long enough and distinct.
                unsafe {
                    let (from, to) = (source.as_ptr().add(from), destination.as_mut_ptr().add(to));
                    fill(from, to, length, Stores::Cached);
                }
                assert_eq!(destination[to..to + length], source[from..from + length], "{length}");
                // Slices are compared as a whole, which is quick under Miri.
                let untouched = [0xee_u8; ROOM];
                assert_eq!(destination[..to], untouched[..to], "{length}");
                assert_eq!(destination[to + length..], untouched[to + length..], "{length}");
            }
        }
    }
}
