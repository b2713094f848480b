//! Copies through the cache by the processor's widest registers.
//!
//! A C library's `memcpy` takes a string instruction (`rep movsb`) for some kilobytes. On some processors that is many times
//! slower than loads and stores when the two addresses are a few bytes apart but for whole pages, as those of a user's buffer
//! and a page of the segment often are.

use crate::sync::has_avx;

/// Least bytes of a copy by wide registers. Shorter ones `memcpy` makes the same way itself.
const WIDE_LEAST: usize = 2048;

/// How far ahead of its stores [`copy_fetching`] asks for lines, bytes. Measured, messages of 1 MiB through the copy ring
/// between near cores into memory that is in no cache, GB/s: not at all 24.9, 512 bytes ahead 22.1, 1 KiB 20.8, 2 KiB 31.1,
/// 4 KiB 23.7.
const AHEAD: usize = 2048;

/// Copies `length` bytes through the cache.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes. Where the two overlap, any bytes may be the result.
#[inline(always)]
pub unsafe fn copy_cached(source: *const u8, destination: *mut u8, length: usize) {
    if length >= WIDE_LEAST && has_avx() {
        // SAFETY: by the contract, and there are such registers.
        unsafe { copy_vectors::<0>(source, destination, length) };
    } else {
        // SAFETY: by the contract.
        unsafe { source.copy_to(destination, length) };
    }
}

/// As [`copy_cached`], for a destination that is in no cache of this core: the processor fetches by itself what is read, and
/// stops at the end of each page, but what is written it fetches too late.
///
/// # Safety
///
/// As for [`copy_cached`].
#[inline(always)]
pub(super) unsafe fn copy_fetching(source: *const u8, destination: *mut u8, length: usize) {
    if length >= WIDE_LEAST && has_avx() {
        // SAFETY: by the contract, and there are such registers.
        unsafe { copy_vectors::<AHEAD>(source, destination, length) };
    } else {
        // SAFETY: by the contract.
        unsafe { source.copy_to(destination, length) };
    }
}

/// # Safety
///
/// As for [`copy_cached`]; `length` is at least [`WIDE_LEAST`], and [`has_avx`]. With `AHEAD`, the lines so many bytes ahead are
/// asked for, which may be beyond the end: there the next piece belongs, most of the time.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn copy_vectors<const AHEAD: usize>(source: *const u8, destination: *mut u8, length: usize) {
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};

    use crate::sync::{CACHE_LINE, prefetch_to_write};

    /// Vectors of a turn of the loop: two lines.
    const VECTORS: usize = 4;
    const BYTES: usize = VECTORS * size_of::<__m256i>();

    let last = length - BYTES;
    let turn = |at: usize| {
        // SAFETY: `at` is at most `last`, so all lies within `length` bytes.
        unsafe {
            let from = source.add(at).cast::<__m256i>();
            let to = destination.add(at).cast::<__m256i>();
            if AHEAD > 0 {
                for line in (0..BYTES).step_by(CACHE_LINE) {
                    prefetch_to_write(to.cast::<u8>().wrapping_add(AHEAD + line));
                }
            }
            // All loads come before the stores: more lines are on their way at a time.
            let vectors: [__m256i; VECTORS] =
                core::array::from_fn(|number| _mm256_loadu_si256(from.add(number)));
            for (number, vector) in vectors.into_iter().enumerate() {
                _mm256_storeu_si256(to.add(number), vector);
            }
        }
    };
    let mut at = 0;
    while at < last {
        turn(at);
        at += BYTES;
    }
    // The last bytes, some of them for the second time.
    turn(last);
}

/// Where there are no such registers.
///
/// # Safety
///
/// As for [`copy_cached`].
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
unsafe fn copy_vectors<const AHEAD: usize>(source: *const u8, destination: *mut u8, length: usize) {
    // SAFETY: by the contract.
    unsafe { source.copy_to(destination, length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_at_every_alignment_is_copied_whole_and_nothing_beyond_it() {
        const ROOM: usize = 3 * WIDE_LEAST;
        let source: [u8; ROOM] = core::array::from_fn(|at| (at * 7 + at / 251) as u8);
        let step = if cfg!(miri) { 401 } else { 1 };
        for (from, to) in [(0, 0), (1, 0), (0, 8), (3, 17), (16, 63)] {
            for length in (WIDE_LEAST - 130..WIDE_LEAST + 400).step_by(step) {
                let mut destination = [0xee_u8; ROOM];
                // SAFETY: both arrays are long enough and distinct.
                unsafe {
                    copy_cached(
                        source.as_ptr().add(from),
                        destination.as_mut_ptr().add(to),
                        length,
                    );
                }
                assert_eq!(destination[to..to + length], source[from..from + length], "{length}");
                let (before, after) = (&destination[..to], &destination[to + length..]);
                assert!(before.iter().chain(after).all(|byte| *byte == 0xee), "{length}");
            }
        }
    }
}
