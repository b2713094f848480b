//! Copies from and to memory that other ranks may access at the same time. Nothing here can prevent
//! two processes from a race, so what is not one number is copied by [`copy_opaque`], as a device
//! would.

use core::ptr::NonNull;

use super::word::SharedNumber;
use crate::buffer::copy::copy_opaque;

/// Copies `length` bytes, where one side or both lie in a part.
///
/// If other ranks change the same bytes concurrently without synchronisation, the result has bytes
/// of either value; MPI-4.1 §12.7 leaves it undefined. An aligned number of 1, 2, 4 or 8 bytes is
/// copied as a whole.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not
/// overlap. Concurrent accesses by others go through this function or [`SharedNumber`], or come
/// from outside this program.
#[inline(always)]
pub unsafe fn transfer(source: NonNull<u8>, destination: NonNull<u8>, length: usize) {
    // SAFETY: the caller guarantees valid, separate ranges (contract of `transfer`), and each arm
    // has its own length.
    unsafe {
        match length {
            8 if both_aligned::<u64>(source, destination) => one::<u64>(source, destination),
            4 if both_aligned::<u32>(source, destination) => one::<u32>(source, destination),
            2 if both_aligned::<u16>(source, destination) => one::<u16>(source, destination),
            1 => one::<u8>(source, destination),
            0 => {}
            _ => copy_opaque(source.as_ptr(), destination.as_ptr(), length),
        }
    }
}

#[inline(always)]
fn both_aligned<T>(source: NonNull<u8>, destination: NonNull<u8>) -> bool {
    source.cast::<T>().is_aligned() && destination.cast::<T>().is_aligned()
}

/// # Safety
///
/// The contract of [`transfer`] holds for one number, and both addresses are aligned.
#[inline(always)]
unsafe fn one<T: crate::reduce::Reducible>(source: NonNull<u8>, destination: NonNull<u8>) {
    // SAFETY: the caller guarantees valid, aligned numbers (contract of `one`).
    unsafe { SharedNumber::<T>::new(destination).store(SharedNumber::<T>::new(source).load()) };
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_at_every_alignment_is_copied_whole_and_nothing_beyond_it() {
        // The memory of a window is writable: its words are atomics.
        let mut source: [u8; 64] = core::array::from_fn(|at| at as u8 + 1);
        for (from, to) in [(0, 0), (1, 0), (0, 4), (8, 8), (2, 6)] {
            for length in 0..=40 {
                let mut destination = [0xee_u8; 64];
                let [from_place, to_place] = [
                    NonNull::from(&mut source[from..]).cast(),
                    NonNull::from(&mut destination[to..]).cast(),
                ];
                // SAFETY: both arrays are long enough and distinct.
                unsafe { transfer(from_place, to_place, length) };
                assert_eq!(destination[to..to + length], source[from..from + length]);
                let (before, after) = (&destination[..to], &destination[to + length..]);
                assert!(before.iter().chain(after).all(|byte| *byte == 0xee), "{length}");
            }
        }
    }
}
