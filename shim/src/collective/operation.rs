//! What a reduction does with two numbers.

use bytemuck::{AnyBitPattern, NoUninit};

use super::CollectiveError;

/// The operation of a reduction (MPI-4.1 §6.9.2). Integers wrap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// `MPI_SUM`.
    Sum,
    /// `MPI_PROD`.
    Prod,
    /// `MPI_MIN`. A number that is not a number loses against one that is.
    Min,
    /// `MPI_MAX`, likewise.
    Max,
    /// `MPI_BAND`, of integers.
    BitAnd,
    /// `MPI_BOR`, of integers.
    BitOr,
    /// `MPI_BXOR`, of integers.
    BitXor,
}

/// The numbers that can be reduced: `i32`, `i64`, `u32`, `u64`, `f32`, `f64`.
pub trait Number: NoUninit + AnyBitPattern + sealed::Combine {}

mod sealed {
    use super::Op;

    pub trait Combine: Copy {
        const NAME: &'static str;

        /// The function of `op`; `None` where it has no meaning.
        fn function(op: Op) -> Option<fn(Self, Self) -> Self>;
    }
}

macro_rules! numbers {
    ($($number:ident: $sum:expr, $product:expr, [$($bits:tt)*];)*) => {$(
        impl Number for $number {}

        impl sealed::Combine for $number {
            const NAME: &'static str = stringify!($number);

            fn function(op: Op) -> Option<fn(Self, Self) -> Self> {
                Some(match op {
                    Op::Sum => $sum,
                    Op::Prod => $product,
                    Op::Min => |a, b| a.min(b),
                    Op::Max => |a, b| a.max(b),
                    $($bits)*
                })
            }
        }
    )*};
    (integers: $($number:ident)*) => {
        numbers! {$(
            $number: Self::wrapping_add, Self::wrapping_mul, [
                Op::BitAnd => |a, b| a & b,
                Op::BitOr => |a, b| a | b,
                Op::BitXor => |a, b| a ^ b,
            ];
        )*}
    };
    (floats: $($number:ident)*) => {
        numbers! {$(
            $number: |a, b| a + b, |a, b| a * b, [
                Op::BitAnd | Op::BitOr | Op::BitXor => return None,
            ];
        )*}
    };
}

numbers!(integers: i32 i64 u32 u64);
numbers!(floats: f32 f64);

/// One operation on vectors of one type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combine<T>(fn(T, T) -> T);

impl<T: Number> Combine<T> {
    pub(super) fn new(op: Op) -> Result<Self, CollectiveError> {
        T::function(op).map(Self).ok_or(CollectiveError::Operation { op, of: T::NAME })
    }

    /// `mine[i] = mine[i] op theirs[i]`.
    pub(super) fn with_higher(self, mine: &mut [T], theirs: &[T]) {
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = (self.0)(*mine, *theirs);
        }
    }

    /// `mine[i] = theirs[i] op mine[i]`.
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
    fn each_operation_does_what_its_name_says() {
        let reduce = |op, a: i32, b| {
            let mut mine = [a];
            Combine::new(op).unwrap().with_higher(&mut mine, &[b]);
            mine[0]
        };
        assert_eq!(reduce(Op::Sum, i32::MAX, 1), i32::MIN);
        assert_eq!(reduce(Op::Prod, -3, 7), -21);
        assert_eq!(reduce(Op::Min, -3, 7), -3);
        assert_eq!(reduce(Op::Max, -3, 7), 7);
        assert_eq!(reduce(Op::BitAnd, 6, 3), 2);
        assert_eq!(reduce(Op::BitOr, 6, 3), 7);
        assert_eq!(reduce(Op::BitXor, 6, 3), 5);
    }

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
}
