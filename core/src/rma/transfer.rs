//! Copies from and to memory that others may reach at the same moment.

use core::ptr::NonNull;

use super::word::Place;

/// Copies `length` bytes, of which one side or both lie in a part. What other ranks do there at the same time, without
/// synchronisation, gives bytes of either (MPI-4.1 §12.7 leaves them undefined); an aligned number of 1, 2, 4 or 8 bytes
/// is copied whole.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes, and the two do not overlap. While others may
/// reach either, they do so by this function, by [`Place`], or from outside this program.
#[inline(always)]
pub unsafe fn transfer(source: NonNull<u8>, destination: NonNull<u8>, length: usize) {
    // SAFETY: by the contract, for each length.
    unsafe {
        match length {
            8 if both_aligned::<u64>(source, destination) => one::<u64>(source, destination),
            4 if both_aligned::<u32>(source, destination) => one::<u32>(source, destination),
            2 if both_aligned::<u16>(source, destination) => one::<u16>(source, destination),
            1 => one::<u8>(source, destination),
            0 => {}
            _ => many(source, destination, length),
        }
    }
}

#[inline(always)]
fn both_aligned<T>(source: NonNull<u8>, destination: NonNull<u8>) -> bool {
    source.cast::<T>().is_aligned() && destination.cast::<T>().is_aligned()
}

/// # Safety
///
/// As for [`transfer`], for one number; both are aligned.
#[inline(always)]
unsafe fn one<T: crate::reduce::Number>(source: NonNull<u8>, destination: NonNull<u8>) {
    // SAFETY: by the contract.
    unsafe { Place::<T>::new(destination).store(Place::<T>::new(source).load()) };
}

/// By the C library's `memcpy`, called so that the compiler does not know it.
///
/// For Rust a copy that races with another access is undefined behaviour, whatever MPI says of the values. Nothing here can
/// keep two processes from it. So these bytes are moved by code from outside the program, as a device would move them: to the
/// compiler it is a call that may do to that memory whatever atomic accesses may do, and there is no race.
///
/// # Safety
///
/// As for [`transfer`].
#[cfg(not(miri))]
#[inline(always)]
unsafe fn many(source: NonNull<u8>, destination: NonNull<u8>, length: usize) {
    type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
    unsafe extern "C" {
        fn memcpy(destination: *mut u8, source: *const u8, length: usize) -> *mut u8;
    }
    let copy: Copy = core::hint::black_box(memcpy);
    // SAFETY: by the contract.
    unsafe { copy(destination.as_ptr(), source.as_ptr(), length) };
}

/// # Safety
///
/// As for [`transfer`].
#[cfg(miri)]
unsafe fn many(source: NonNull<u8>, destination: NonNull<u8>, length: usize) {
    // SAFETY: by the contract.
    unsafe { source.copy_to_nonoverlapping(destination, length) };
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_at_every_alignment_is_copied_whole_and_nothing_beyond_it() {
        // The memory of a window can be written: its words are atomics.
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
