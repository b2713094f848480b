//! Reads of values that a faulty process may write at the same time.

use core::ptr::NonNull;

/// Reads a value by words of 8 bytes, each of them once.
///
/// An ordinary read may be repeated by the compiler, so that a checked value changes after its
/// check. If another process writes the value during an ordinary read, that is undefined behaviour.
/// Here it yields words of either value.
///
/// Loom has no memory that is reached as words, so in a model this is an ordinary read.
///
/// # Safety
///
/// `place` is valid for reads and aligned. `T` has no padding, and any bytes are a valid `T`. This
/// program does not write the value at the same time, unless by atomic accesses.
#[inline(always)]
pub(crate) unsafe fn read_once<T: Copy>(place: *const T) -> T {
    const {
        assert!(align_of::<T>() == size_of::<u64>() && size_of::<T>().is_multiple_of(8));
    }
    if cfg!(strait_loom) {
        // SAFETY: the caller guarantees a valid, aligned place (contract of `read_once`).
        return unsafe { place.read() };
    }
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    for number in 0..size_of::<T>() / size_of::<u64>() {
        // SAFETY: the word lies in the value, which is valid and aligned (contract of `read_once`),
        // as is its copy.
        unsafe {
            let word = NonNull::new_unchecked(place.cast_mut().cast::<u64>().add(number));
            value
                .as_mut_ptr()
                .cast::<u64>()
                .add(number)
                .write(super::word::sealed::Atomic::load(word));
        }
    }
    // SAFETY: every word was written, and any bytes are a valid `T` (contract of `read_once`).
    unsafe { value.assume_init() }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_whole() {
        let mut value = [1_u64, u64::MAX, 3];
        // SAFETY: the array lives on, and nothing else accesses it.
        assert_eq!(unsafe { read_once(&raw mut value) }, [1, u64::MAX, 3]);
    }
}
