//! The operations that a reduction applies to two numbers.

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::reduce::{self, Op};

use crate::CollectiveError;

/// The numbers that can be reduced and accumulated: integers of 8 to 64 bits, `f32`, `f64`.
pub trait Number: NoUninit + AnyBitPattern + reduce::Reducible {}

impl<T: NoUninit + AnyBitPattern + reduce::Reducible> Number for T {}

/// One operation on vectors of one type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combine<T>(fn(T, T) -> T);

impl<T: Number> Combine<T> {
    pub(super) fn new(op: Op) -> Result<Self, CollectiveError> {
        let function = T::function(op).filter(|_| !op.is_of_accumulates());
        function.map(Self).ok_or(CollectiveError::Operation { op, of: T::NAME })
    }

    /// Sets `mine[i] = mine[i] op theirs[i]`.
    pub(super) fn with_higher(self, mine: &mut [T], theirs: &[T]) {
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = (self.0)(*mine, *theirs);
        }
    }

    /// Sets `mine[i] = theirs[i] op mine[i]`.
    pub(super) fn with_lower(self, mine: &mut [T], theirs: &[T]) {
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = (self.0)(*theirs, *mine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_place_stands_on_the_left() {
        let left = Combine::<f64>(|a, _| a);
        let (mut higher, mut lower) = ([1.0], [1.0]);
        left.with_higher(&mut higher, &[2.0]);
        left.with_lower(&mut lower, &[2.0]);
        assert_eq!((higher, lower), ([1.0], [2.0]));
    }

    #[test]
    fn bits_of_floats_are_refused() {
        let error = Combine::<f32>::new(Op::BitOr).unwrap_err();
        assert_eq!(error, CollectiveError::Operation { op: Op::BitOr, of: "f32" });
    }

    #[test]
    fn replace_is_refused() {
        let error = Combine::<u8>::new(Op::Replace).unwrap_err();
        assert_eq!(error, CollectiveError::Operation { op: Op::Replace, of: "u8" });
    }
}
