//! Copies through the cache that use the processor's widest registers.
//!
//! A C library's `memcpy` uses a string instruction (`rep movsb`) for some kilobytes. On some
//! processors that is many times slower than loads and stores if the two addresses differ by whole
//! pages and a few bytes. A user's buffer and a page of the segment often have such addresses.

use super::opaque::copy_opaque;
use crate::sync::has_avx;

/// Smallest copy, in bytes, that uses wide registers. `memcpy` itself uses them for shorter copies.
const WIDE_LEAST: usize = 2048;

/// Distance in bytes between the stores of [`copy_fetching`] and the lines that it prefetches.
///
/// Measured with messages of 1 MiB through the copy ring, between cores that share a cache, into
/// memory that is in no cache:
///
/// | distance | GB/s |
/// |---------:|-----:|
/// |     none | 24.9 |
/// |    512 B | 22.1 |
/// |    1 KiB | 20.8 |
/// |    2 KiB | 31.1 |
/// |    4 KiB | 23.7 |
const AHEAD: usize = 2048;

/// Copies `length` bytes through the cache.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes. Where the two
/// overlap, the result is any bytes.
#[inline(always)]
pub unsafe fn copy_cached(source: *const u8, destination: *mut u8, length: usize) {
    if length >= WIDE_LEAST && has_avx() {
        // SAFETY: the caller guarantees valid ranges (contract of `copy_cached`), and the processor
        // has the registers.
        unsafe { copy_vectors::<0>(source, destination, length) };
    } else {
        // SAFETY: the caller guarantees valid ranges (contract of `copy_cached`).
        unsafe { copy_opaque(source, destination, length) };
    }
}

/// Copies `length` bytes through the cache, into a destination that is in no cache of this core.
///
/// The processor's prefetcher covers the reads, up to the end of each page, but fetches the lines
/// that are written too late. This function prefetches them.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes. Where the two
/// overlap, the result is any bytes.
#[inline(always)]
pub(super) unsafe fn copy_fetching(source: *const u8, destination: *mut u8, length: usize) {
    if length >= WIDE_LEAST && has_avx() {
        // SAFETY: the caller guarantees valid ranges (contract of `copy_fetching`), and the
        // processor has the registers.
        unsafe { copy_vectors::<AHEAD>(source, destination, length) };
    } else {
        // SAFETY: the caller guarantees valid ranges (contract of `copy_fetching`).
        unsafe { copy_opaque(source, destination, length) };
    }
}

/// Copies by vectors of 32 bytes. Prefetches the lines `AHEAD` bytes ahead unless `AHEAD` is 0.
///
/// A prefetched line may lie beyond the end of the destination; the next piece mostly belongs
/// there.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes. `length` is at least
/// [`WIDE_LEAST`], and [`has_avx`] returns true.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn copy_vectors<const AHEAD: usize>(source: *const u8, destination: *mut u8, length: usize) {
    use super::opaque::copy_two_lines;
    use crate::sync::{CACHE_LINE, prefetch_to_write};

    /// Number of bytes that one iteration of the loop copies.
    const BYTES: usize = 2 * CACHE_LINE;

    let last = length - BYTES;
    let turn = |at: usize| {
        // SAFETY: `at` is at most `last`, so every access lies within `length` bytes.
        unsafe {
            let to = destination.add(at);
            if AHEAD > 0 {
                for line in (0..BYTES).step_by(CACHE_LINE) {
                    prefetch_to_write(to.wrapping_add(AHEAD + line));
                }
            }
            copy_two_lines(source.add(at), to);
        }
    };
    let mut at = 0;
    while at < last {
        turn(at);
        at += BYTES;
    }
    // Copies the last bytes, some of them for the second time.
    turn(last);
    // The compiler does this only for instructions of its own. Without it, later code that uses the
    // lower halves of the registers is slow.
    core::arch::x86_64::_mm256_zeroupper();
}

/// Copies without wide registers, on targets that lack them.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
unsafe fn copy_vectors<const AHEAD: usize>(source: *const u8, destination: *mut u8, length: usize) {
    // SAFETY: the caller guarantees valid ranges (contract of `copy_vectors`).
    unsafe { copy_opaque(source, destination, length) };
}

#[cfg(test)]
mod tests {
    use super::super::testing::copies_whole;
    use super::*;

    #[test]
    fn every_length_at_every_alignment_is_copied_whole_and_nothing_beyond_it() {
        let step = if cfg!(miri) { 401 } else { 1 };
        let lengths = (WIDE_LEAST - 130..WIDE_LEAST + 400).step_by(step);
        copies_whole::<{ 3 * WIDE_LEAST }>(lengths, |from, to, length| {
            // SAFETY: the arrays of `copies_whole` are long enough and distinct.
            unsafe { copy_cached(from, to, length) };
        });
    }
}
