//! Copies through the cache by the processor's widest registers.
//!
//! A C library's `memcpy` takes a string instruction (`rep movsb`) for some kilobytes. On some processors that is many times
//! slower than loads and stores when the two addresses are a few bytes apart but for whole pages, as those of a user's buffer
//! and a page of the segment often are.

/// Least bytes of a copy by wide registers. Shorter ones `memcpy` makes the same way itself.
const WIDE_LEAST: usize = 2048;

/// Copies `length` bytes through the cache.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes. Where the two overlap, any bytes may be the result.
#[inline(always)]
pub unsafe fn copy_cached(source: *const u8, destination: *mut u8, length: usize) {
    if length >= WIDE_LEAST && wide::is_here() {
        // SAFETY: by the contract, and it is here.
        unsafe { wide::copy(source, destination, length) };
    } else {
        // SAFETY: by the contract.
        unsafe { source.copy_to(destination, length) };
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri), not(strait_loom)))]
mod wide {
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};

    const VECTOR: usize = size_of::<__m256i>();

    /// Vectors of a turn of the loop: two lines.
    const TURN: usize = 4;
    const BYTES: usize = TURN * VECTOR;

    cpufeatures::new!(avx, "avx");

    /// Whether this processor has registers of 32 bytes, and the system keeps them.
    #[inline(always)]
    pub(super) fn is_here() -> bool {
        avx::get()
    }

    /// # Safety
    ///
    /// As for [`super::copy_cached`]; `length` is at least [`BYTES`], and [`is_here`].
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn copy(source: *const u8, destination: *mut u8, length: usize) {
        let last = length - BYTES;
        let turn = |at: usize| {
            // SAFETY: `at` is at most `last`, so all lies within `length` bytes.
            unsafe {
                let (from, to) = (source.add(at).cast::<__m256i>(), destination.add(at).cast());
                // All loads come before the stores: more lines are on their way at a time.
                let vectors: [__m256i; TURN] =
                    core::array::from_fn(|number| _mm256_loadu_si256(from.add(number)));
                for (number, vector) in vectors.into_iter().enumerate() {
                    _mm256_storeu_si256(<*mut __m256i>::add(to, number), vector);
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
}

/// Where there are no such registers, or nobody knows.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri), not(strait_loom))))]
mod wide {
    pub(super) const fn is_here() -> bool {
        false
    }

    pub(super) const unsafe fn copy(_: *const u8, _: *mut u8, _: usize) {}
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
