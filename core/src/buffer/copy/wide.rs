//! Copies through the cache that use the processor's widest registers.
//!
//! A C library's `memcpy` uses a string instruction (`rep movsb`) for some kilobytes. On some
//! processors that is many times slower than loads and stores if the two addresses differ by whole
//! pages and a few bytes. A user's buffer and a page of the segment often have such addresses.

use super::opaque::copy_opaque;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::opaque::copy_string;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::sync::CACHE_LINE;
use crate::sync::{has_avx, has_fast_strings};

/// Smallest copy, in bytes, that uses wide registers. `memcpy` itself uses them for shorter copies.
const WIDE_LEAST: usize = 2048;

/// Distance in bytes between the loads of [`copy_cached`] and the lines of the source that it
/// prefetches where strings are fast. The processor's own prefetcher stops at the end of each page.
///
/// On a Zen 4 the prefetch makes the same messages slower by 5 to 20 %. Measured on a Zen 5 with
/// messages of 512 KiB through a ring that their sender fills by the string instruction, in
/// microseconds (`docs/decisions/wide-copies.md`):
///
/// | lines ahead that are prefetched | near |      far |
/// |---------------------------------|-----:|---------:|
/// | none                            | 11.7 | 19 to 21 |
/// | 4 KiB of the source             | 10.8 |       17 |
/// | 2 KiB of the destination        | 12.1 |       30 |
const READ_AHEAD: usize = 4096;

/// Distance in bytes between the stores of [`copy_fetching`] and the lines that it prefetches.
///
/// Measured on an earlier processor with messages of 1 MiB through the copy ring, between cores
/// that share a cache, into memory that is in no cache:
///
/// | distance | GB/s |
/// |---------:|-----:|
/// |     none | 24.9 |
/// |    512 B | 22.1 |
/// |    1 KiB | 20.8 |
/// |    2 KiB | 31.1 |
/// |    4 KiB | 23.7 |
const WRITE_AHEAD: usize = 2048;

/// Smallest copy, in bytes, that uses the string instruction where that is fast and both ranges
/// begin with a line. At other alignments it is slow into memory that is in no cache.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRING_LEAST: usize = 8192;

/// Copies `length` bytes through the cache.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes. Where the two
/// overlap, the result is any bytes.
#[inline(always)]
pub unsafe fn copy_cached(source: *const u8, destination: *mut u8, length: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if length >= STRING_LEAST
        && (source.addr() | destination.addr()).is_multiple_of(CACHE_LINE)
        && has_fast_strings()
    {
        // SAFETY: the caller guarantees valid ranges (contract of `copy_cached`).
        return unsafe { copy_string(source, destination, length) };
    }
    if length >= WIDE_LEAST && has_avx() {
        // SAFETY: the caller guarantees valid ranges (contract of `copy_cached`), and the processor
        // has the registers.
        unsafe {
            if has_fast_strings() {
                copy_vectors::<READ_AHEAD, 0>(source, destination, length);
            } else {
                copy_vectors::<0, 0>(source, destination, length);
            }
        }
    } else {
        // SAFETY: the caller guarantees valid ranges (contract of `copy_cached`).
        unsafe { copy_opaque(source, destination, length) };
    }
}

/// Copies `length` bytes through the cache, into a destination that is in no cache of this core.
///
/// Some processors fetch the lines that are written too late. This function prefetches them, but
/// not where strings are fast: there that made no copy faster, and some slower.
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
        unsafe {
            if has_fast_strings() {
                copy_vectors::<0, 0>(source, destination, length);
            } else {
                copy_vectors::<0, WRITE_AHEAD>(source, destination, length);
            }
        }
    } else {
        // SAFETY: the caller guarantees valid ranges (contract of `copy_fetching`).
        unsafe { copy_opaque(source, destination, length) };
    }
}

/// Copies by vectors of 32 bytes. Prefetches the lines of the source `READ` bytes ahead and those
/// of the destination `WRITE` bytes ahead, unless the number is 0.
///
/// A prefetched line of the destination may lie beyond its end; the next piece mostly belongs
/// there. None of the source does: a peer may be about to write it.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes. `length` is at least
/// [`WIDE_LEAST`], and [`has_avx`] returns true.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn copy_vectors<const READ: usize, const WRITE: usize>(
    source: *const u8,
    destination: *mut u8,
    length: usize,
) {
    use core::ptr::NonNull;

    use super::opaque::copy_two_lines;
    use crate::sync::{CACHE_LINE, prefetch, prefetch_to_write};

    /// Number of bytes that one iteration of the loop copies.
    const BYTES: usize = 2 * CACHE_LINE;

    let last = length - BYTES;
    let turn = |at: usize| {
        // SAFETY: `at` is at most `last`, so every access lies within `length` bytes.
        unsafe {
            let to = destination.add(at);
            if WRITE > 0 {
                for line in (0..BYTES).step_by(CACHE_LINE) {
                    prefetch_to_write(to.wrapping_add(WRITE + line));
                }
            }
            copy_two_lines(source.add(at), to);
        }
    };
    let mut at = 0;
    while READ > 0 && at + READ < last {
        for line in (0..BYTES).step_by(CACHE_LINE) {
            // SAFETY: `at + READ` is less than `last`, so the line begins within `length` bytes.
            prefetch(unsafe { NonNull::new_unchecked(source.add(at + READ + line).cast_mut()) });
        }
        turn(at);
        at += BYTES;
    }
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
unsafe fn copy_vectors<const READ: usize, const WRITE: usize>(
    source: *const u8,
    destination: *mut u8,
    length: usize,
) {
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

    #[test]
    fn lengths_from_which_strings_are_used_are_copied_whole_and_nothing_beyond_them() {
        const LEAST: usize = 8192;
        let step = if cfg!(miri) { 67 } else { 1 };
        let lengths = (LEAST - 2..LEAST + 66).step_by(step);
        copies_whole::<{ LEAST + 130 }>(lengths, |from, to, length| {
            // SAFETY: the arrays of `copies_whole` are long enough and distinct.
            unsafe { copy_cached(from, to, length) };
        });
    }
}
