//! Numbers in a part, reached by the processor's atomic instructions.
//!
//! All accesses are Relaxed. The order between them is what synchronisation makes ([`super::flush`], [`super::Signal`],
//! barriers); the order of one origin's accesses to one number is that of its program, by coherence.

use core::ptr::NonNull;

use crate::reduce::{Integer, Number, Op, sealed::Bits};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// An unsigned integer that the processor reads, writes and swaps whole.
pub trait Word: Copy + Eq + sealed::Atomic {}

mod sealed {
    use core::ptr::NonNull;

    /// The accesses. The place is valid for reads and writes, aligned, and reached by atomic accesses alone while others may
    /// reach it, in all of them.
    pub trait Atomic: Sized {
        unsafe fn load(place: NonNull<Self>) -> Self;
        unsafe fn store(place: NonNull<Self>, value: Self);
        unsafe fn swap(place: NonNull<Self>, value: Self) -> Self;
        unsafe fn fetch_add(place: NonNull<Self>, value: Self) -> Self;
        unsafe fn compare_exchange(
            place: NonNull<Self>,
            old: Self,
            new: Self,
        ) -> Result<Self, Self>;
    }
}

macro_rules! words {
    ($($word:ident is $atomic:ident,)*) => {$(
        impl Word for $word {}

        impl sealed::Atomic for $word {
            #[inline(always)]
            unsafe fn load(place: NonNull<Self>) -> Self {
                // SAFETY: by the contract.
                unsafe { place.cast::<$atomic>().as_ref() }.load(Relaxed)
            }

            #[inline(always)]
            unsafe fn store(place: NonNull<Self>, value: Self) {
                // SAFETY: by the contract.
                unsafe { place.cast::<$atomic>().as_ref() }.store(value, Relaxed);
            }

            #[inline(always)]
            unsafe fn swap(place: NonNull<Self>, value: Self) -> Self {
                // SAFETY: by the contract.
                unsafe { place.cast::<$atomic>().as_ref() }.swap(value, Relaxed)
            }

            #[inline(always)]
            unsafe fn fetch_add(place: NonNull<Self>, value: Self) -> Self {
                // SAFETY: by the contract.
                unsafe { place.cast::<$atomic>().as_ref() }.fetch_add(value, Relaxed)
            }

            #[inline(always)]
            unsafe fn compare_exchange(
                place: NonNull<Self>,
                old: Self,
                new: Self,
            ) -> Result<Self, Self> {
                // SAFETY: by the contract.
                unsafe { place.cast::<$atomic>().as_ref() }
                    .compare_exchange(old, new, Relaxed, Relaxed)
            }
        }
    )*};
}

words! { u8 is AtomicU8, u16 is AtomicU16, u32 is AtomicU32, u64 is AtomicU64, }

/// Whether `op` on numbers of this type is the sum of the words that hold them, which devices can do.
#[must_use]
pub fn is_sum_of_words<T: Number>(op: Op) -> bool {
    op == Op::Sum && T::ADDS_AS_WORD
}

/// Where a number lies that several processes reach.
#[derive(Clone, Copy, Debug)]
pub struct Place<T: Bits>(NonNull<T::Word>);

impl<T: Number> Place<T> {
    /// The number at `address`.
    ///
    /// # Safety
    ///
    /// The address is aligned to the size of the number, and valid for reads and writes as long as the place is used. While
    /// others may reach it they do so by places, by [`super::transfer`], or from outside this program.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new(address: NonNull<u8>) -> Self {
        Self(address.cast())
    }

    /// Reads the number.
    #[inline(always)]
    #[must_use]
    pub fn load(self) -> T {
        // SAFETY: by the contract of `new`, here and below.
        T::from_bits(unsafe { sealed::Atomic::load(self.0) })
    }

    /// Writes the number.
    #[inline(always)]
    pub fn store(self, value: T) {
        // SAFETY: as above.
        unsafe { sealed::Atomic::store(self.0, value.to_bits()) };
    }

    /// Combines the number with `operand`, and gives the one before; `None`, and nothing is done, where `op` has no meaning.
    #[inline(always)]
    pub fn fetch_and_op(self, op: Op, operand: T) -> Option<T> {
        let bits = operand.to_bits();
        // SAFETY: as above.
        let old = unsafe {
            match op {
                Op::Sum if T::ADDS_AS_WORD => sealed::Atomic::fetch_add(self.0, bits),
                Op::Replace => sealed::Atomic::swap(self.0, bits),
                Op::NoOp => sealed::Atomic::load(self.0),
                _ => return Some(self.fetch_by(T::function(op)?, operand)),
            }
        };
        Some(T::from_bits(old))
    }

    /// By compare-and-swap until nobody comes in between.
    fn fetch_by(self, function: fn(T, T) -> T, operand: T) -> T {
        // SAFETY: as above.
        let mut old = unsafe { sealed::Atomic::load(self.0) };
        loop {
            let new = function(T::from_bits(old), operand).to_bits();
            // SAFETY: as above.
            match unsafe { sealed::Atomic::compare_exchange(self.0, old, new) } {
                Ok(_) => return T::from_bits(old),
                Err(found) => old = found,
            }
        }
    }
}

impl<T: Integer> Place<T> {
    /// Writes `new` if the number is `compare`, and gives the one before.
    #[inline(always)]
    #[must_use]
    pub fn compare_and_swap(self, compare: T, new: T) -> T {
        let (old, new) = (compare.to_bits(), new.to_bits());
        // SAFETY: as above.
        let found = unsafe { sealed::Atomic::compare_exchange(self.0, old, new) };
        T::from_bits(found.unwrap_or_else(|found| found))
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    fn check<T: Number + PartialEq + core::fmt::Debug>(mut before: T, operand: T) {
        let start = before;
        for op in Op::ALL {
            // SAFETY: a number of ours, aligned.
            let place = unsafe { Place::<T>::new(NonNull::from(&mut before).cast()) };
            place.store(start);
            let expected = T::function(op).map(|function| function(start, operand));
            assert_eq!(place.fetch_and_op(op, operand), expected.map(|_| start), "{op:?}");
            assert_eq!(place.load(), expected.unwrap_or(start), "{op:?} of {}", T::NAME);
        }
    }

    #[test]
    fn every_operation_on_every_type_does_to_memory_what_it_does_to_two_numbers() {
        check(-5_i8, 7);
        check(-5_i16, 7);
        check(-5_i32, 7);
        check(i64::MIN, -1);
        check(250_u8, 9);
        check(65_535_u16, 9);
        check(0_u32, 9);
        check(u64::MAX, 9);
        check(1.5_f32, -0.25);
        check(-1e300_f64, 1e300);
    }

    #[test]
    fn a_swap_happens_when_the_number_is_the_expected_one() {
        let mut number = -7_i16;
        // SAFETY: a number of ours, aligned.
        let place = unsafe { Place::<i16>::new(NonNull::from(&mut number).cast()) };
        assert_eq!(place.compare_and_swap(1, 2), -7);
        assert_eq!(place.compare_and_swap(-7, 3), -7);
        assert_eq!(place.load(), 3);
    }
}
