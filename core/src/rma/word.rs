//! Numbers in a part, accessed by the processor's atomic instructions.
//!
//! All accesses are Relaxed. Synchronisation orders them ([`super::flush`], [`super::Signal`],
//! barriers). Coherence keeps one origin's accesses to one number in program order.

use core::ptr::NonNull;

use crate::reduce::{Integer, Op, Reducible, sealed::Bits};
use crate::sync::word::sealed;

/// Returns true if `op` on numbers of this type is the sum of the words that hold them. Devices can
/// perform such a sum.
#[must_use]
pub fn is_sum_of_words<T: Reducible>(op: Op) -> bool {
    op == Op::Sum && T::ADDS_AS_WORD
}

/// The address of a number that several processes access.
#[derive(Clone, Copy, Debug)]
pub struct SharedNumber<T: Bits>(NonNull<T::Word>);

impl<T: Reducible> SharedNumber<T> {
    /// Describes the number at `address`.
    ///
    /// # Safety
    ///
    /// `address` is aligned to the size of the number, and valid for reads and writes while this
    /// value is in use. Concurrent accesses by others go through places or [`super::transfer()`],
    /// or come from outside this program.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new(address: NonNull<u8>) -> Self {
        Self(address.cast())
    }

    /// Reads the number.
    #[inline(always)]
    #[must_use]
    pub fn load(self) -> T {
        // SAFETY: the address is valid and aligned (contract of `new`).
        T::from_bits(unsafe { sealed::Atomic::load(self.0) })
    }

    /// Writes the number.
    #[inline(always)]
    pub fn store(self, value: T) {
        // SAFETY: the address is valid and aligned (contract of `new`).
        unsafe { sealed::Atomic::store(self.0, value.to_bits()) };
    }

    /// Combines the number with `operand` and returns the old one. Returns `None` without a change
    /// if `op` is not defined for the type.
    #[inline(always)]
    pub fn fetch_and_op(self, op: Op, operand: T) -> Option<T> {
        let bits = operand.to_bits();
        // SAFETY: the address is valid and aligned (contract of `new`).
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

    /// Adds `operand` to the number and returns the old one, while no other access changes it.
    /// Returns `None` without a change if sums are not defined for the type.
    #[inline(always)]
    pub fn add_alone(self, operand: T) -> Option<T> {
        let sum = T::function(Op::Sum)?;
        let old = self.load();
        self.store(sum(old, operand));
        Some(old)
    }

    /// Combines by compare-and-swap, repeated until no other access comes in between.
    fn fetch_by(self, function: fn(T, T) -> T, operand: T) -> T {
        // SAFETY: the address is valid and aligned (contract of `new`).
        let mut old = unsafe { sealed::Atomic::load(self.0) };
        loop {
            let new = function(T::from_bits(old), operand).to_bits();
            // SAFETY: the address is valid and aligned (contract of `new`).
            match unsafe { sealed::Atomic::compare_exchange(self.0, old, new) } {
                Ok(_) => return T::from_bits(old),
                Err(found) => old = found,
            }
        }
    }
}

impl<T: Integer> SharedNumber<T> {
    /// Writes `new` if the number equals `compare`, and returns the old number.
    #[inline(always)]
    #[must_use]
    pub fn compare_and_swap(self, compare: T, new: T) -> T {
        let (old, new) = (compare.to_bits(), new.to_bits());
        // SAFETY: the address is valid and aligned (contract of `new`).
        let found = unsafe { sealed::Atomic::compare_exchange(self.0, old, new) };
        T::from_bits(found.unwrap_or_else(|found| found))
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    fn check<T: Reducible + PartialEq + core::fmt::Debug>(mut before: T, operand: T) {
        let start = before;
        for op in Op::ALL {
            // SAFETY: the number belongs to this test and is aligned.
            let place = unsafe { SharedNumber::<T>::new(NonNull::from(&mut before).cast()) };
            place.store(start);
            let expected = T::function(op).map(|function| function(start, operand));
            assert_eq!(place.fetch_and_op(op, operand), expected.map(|_| start), "{op:?}");
            assert_eq!(place.load(), expected.unwrap_or(start), "{op:?} of {}", T::NAME);
        }
    }

    #[test]
    fn every_operation_gives_the_same_result_in_memory_as_on_two_numbers() {
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
    fn a_swap_happens_if_the_number_has_the_expected_value() {
        let mut number = -7_i16;
        // SAFETY: the number belongs to this test and is aligned.
        let place = unsafe { SharedNumber::<i16>::new(NonNull::from(&mut number).cast()) };
        assert_eq!(place.compare_and_swap(1, 2), -7);
        assert_eq!(place.compare_and_swap(-7, 3), -7);
        assert_eq!(place.load(), 3);
    }
}
