//! Copies for sizes that `memcpy` does not serve well.
//!
//! This module has copies that are too short for a call. Its submodules have copies of kilobytes,
//! copies that bypass the caches, and copies into memory that a peer reads next. They also have
//! what all of them do about other processes that write the bytes.

mod bulk;
mod fill;
mod opaque;
mod wide;

pub use bulk::{Stores, copy_bulk};
pub use fill::{fill, fills_alike};
pub use opaque::copy_opaque;
pub use wide::copy_cached;

/// Copies 16 bytes through a vector register.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of 16 bytes.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[inline(always)]
unsafe fn copy_vector(source: *const u8, destination: *mut u8) {
    use core::arch::x86_64::{_mm_loadu_si128, _mm_storeu_si128};
    // The compiler keeps an array of bytes on the stack where many copies come together.
    // SAFETY: the caller guarantees valid ranges (contract of `copy_vector`).
    unsafe { _mm_storeu_si128(destination.cast(), _mm_loadu_si128(source.cast())) };
}

/// Copies 16 bytes.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of 16 bytes.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
#[inline(always)]
unsafe fn copy_vector(source: *const u8, destination: *mut u8) {
    // SAFETY: the caller guarantees valid ranges (contract of `copy_vector`).
    unsafe {
        let vector = source.cast::<[u8; 16]>().read_unaligned();
        destination.cast::<[u8; 16]>().write_unaligned(vector);
    }
}

/// Copies `length` bytes, at most 48, by overlapping loads and stores of a fixed size, without a
/// loop or a call.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not
/// overlap.
#[inline(always)]
pub unsafe fn copy_short(source: *const u8, destination: *mut u8, length: usize) {
    debug_assert!(length <= 48);

    /// Copies a `T` from the start and a `T` that ends at `length`. The two may overlap.
    ///
    /// # Safety
    ///
    /// The contract of `copy_short` holds, and `size_of::<T>() <= length <= 2 * size_of::<T>()`.
    #[inline(always)]
    unsafe fn both_ends<T: Copy>(source: *const u8, destination: *mut u8, length: usize) {
        let tail = length - size_of::<T>();
        // SAFETY: both accesses lie within `length` bytes (contract of `both_ends`), and both loads
        // come before both stores.
        unsafe {
            let first = source.cast::<T>().read_unaligned();
            let last = source.add(tail).cast::<T>().read_unaligned();
            destination.cast::<T>().write_unaligned(first);
            destination.add(tail).cast::<T>().write_unaligned(last);
        }
    }

    // SAFETY: each branch's condition is the size condition of its copies. The vectors of the first
    // branch lie at 0..16, 16..32 and in the last 16 bytes, inside a length of at least 16, and
    // above 32 for the middle one.
    unsafe {
        // There is no shortcut for 8 bytes. An answer that leaves even sooner meets the asker's
        // next poll of the line in transit, and loses more than the shortcut gains. Measured
        // one-way latency: 40 to 46 ns with the shortcut, 31 ns without.
        if length >= 16 {
            copy_vector(source, destination);
            if length > 32 {
                copy_vector(source.add(16), destination.add(16));
            }
            copy_vector(source.add(length - 16), destination.add(length - 16));
        } else if length >= 8 {
            both_ends::<u64>(source, destination, length);
        } else if length >= 4 {
            both_ends::<u32>(source, destination, length);
        } else if length >= 2 {
            both_ends::<u16>(source, destination, length);
        } else if length == 1 {
            destination.write(source.read());
        }
    }
}

/// Copies one line's piece of a payload, at most 56 bytes. A whole piece is copied by moves of a
/// fixed size.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not
/// overlap.
#[inline(always)]
pub unsafe fn copy_piece(source: *const u8, destination: *mut u8, length: usize) {
    // SAFETY: the caller guarantees valid, separate ranges of `length` bytes (contract of
    // `copy_piece`). A whole piece has 56 bytes. One that is neither whole nor short has more than
    // `SHORT_MAX`, so all accesses lie within it.
    unsafe {
        if length == crate::wire::MORE_PER_LINE {
            for at in [0, 16, 32] {
                copy_vector(source.add(at), destination.add(at));
            }
            let last = source.add(48).cast::<u64>().read_unaligned();
            destination.add(48).cast::<u64>().write_unaligned(last);
        } else if length <= crate::wire::SHORT_MAX {
            copy_short(source, destination, length);
        } else {
            // Four vectors at 0, 16, 32 and in the last 16 bytes. A call would make the caller save
            // its registers.
            for at in [0, 16, 32, length - 16] {
                copy_vector(source.add(at), destination.add(at));
            }
        }
    }
}

#[cfg(test)]
mod testing {
    /// Memory that begins with a line.
    #[repr(align(64))]
    struct Lines<const ROOM: usize>([u8; ROOM]);

    /// Checks that `copy(source, destination, length)` copies each of these lengths at every kind
    /// of alignment, and writes nothing beyond. `ROOM` is the longest length and 64 bytes, or more.
    pub(super) fn copies_whole<const ROOM: usize>(
        lengths: impl Iterator<Item = usize> + Clone,
        copy: impl Fn(*const u8, *mut u8, usize),
    ) {
        let Lines(source) = &Lines::<ROOM>(core::array::from_fn(|at| (at * 7 + at / 251) as u8));
        for (from, to) in [(0, 0), (1, 0), (0, 8), (0, 1), (3, 17), (16, 63)] {
            for length in lengths.clone() {
                let Lines(destination) = &mut Lines([0xee_u8; ROOM]);
                copy(source[from..].as_ptr(), destination[to..].as_mut_ptr(), length);
                assert_eq!(destination[to..to + length], source[from..from + length], "{length}");
                // Slices are compared as a whole, which is quick under Miri.
                let untouched = [0xee_u8; ROOM];
                assert_eq!(destination[..to], untouched[..to], "{length}");
                assert_eq!(destination[to + length..], untouched[to + length..], "{length}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_nothing_beyond_it() {
        let source: [u8; 48] = core::array::from_fn(|i| i as u8 + 1);
        for length in 0..=48 {
            let mut destination = [0xee_u8; 64];
            // SAFETY: both arrays are at least `length` long and distinct.
            unsafe { copy_short(source.as_ptr(), destination.as_mut_ptr().add(1), length) };
            assert_eq!(destination[1..=length], source[..length], "length {length}");
            assert_eq!(destination[0], 0xee);
            assert!(destination[length + 1..].iter().all(|byte| *byte == 0xee), "length {length}");
        }
    }

    #[test]
    fn every_piece_of_a_line_is_copied_whole_and_nothing_beyond_it() {
        let source: [u8; 56] = core::array::from_fn(|i| i as u8 + 1);
        for length in 0..=56 {
            let mut destination = [0xee_u8; 64];
            // SAFETY: both arrays are at least `length` long and distinct.
            unsafe { copy_piece(source.as_ptr(), destination.as_mut_ptr(), length) };
            assert_eq!(destination[..length], source[..length], "length {length}");
            assert!(destination[length..].iter().all(|byte| *byte == 0xee), "length {length}");
        }
    }
}
