//! The operations of reductions and accumulates on two numbers (MPI-4.1 §6.9.2, §12.3.4).

/// The operation of a reduction or an accumulate. Integer operations wrap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// `MPI_SUM`.
    Sum,
    /// `MPI_PROD`.
    Prod,
    /// `MPI_MIN`. If one operand is NaN, the result is the other.
    Min,
    /// `MPI_MAX`. If one operand is NaN, the result is the other.
    Max,
    /// `MPI_LAND`, for integers: 1 if both operands are nonzero.
    And,
    /// `MPI_LOR`, for integers: 1 if at least one operand is nonzero.
    Or,
    /// `MPI_LXOR`, for integers: 1 if exactly one operand is nonzero.
    Xor,
    /// `MPI_BAND`, for integers.
    BitAnd,
    /// `MPI_BOR`, for integers.
    BitOr,
    /// `MPI_BXOR`, for integers.
    BitXor,
    /// `MPI_REPLACE`, for accumulates: the new number.
    Replace,
    /// `MPI_NO_OP`, for accumulates: the old number.
    NoOp,
}

impl Op {
    /// All operations.
    pub const ALL: [Self; 12] = [
        Self::Sum,
        Self::Prod,
        Self::Min,
        Self::Max,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::Replace,
        Self::NoOp,
    ];

    /// Returns the number that stands for the operation in messages to other processes.
    #[must_use]
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the operation with this number.
    #[must_use]
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.code() == code)
    }

    /// Returns true for the operations that accumulates have and reductions do not.
    #[must_use]
    pub const fn is_of_accumulates(self) -> bool {
        matches!(self, Self::Replace | Self::NoOp)
    }
}

/// A number that can be reduced and accumulated: an integer of 8 to 64 bits, `f32` or `f64`.
pub trait Reducible: sealed::Bits + Copy + 'static {
    /// Name of the type.
    const NAME: &'static str;

    /// Returns the function of `op`, from the number at the target (left) and the new one (right).
    ///
    /// Returns `None` if the operation is not defined for the type.
    fn function(op: Op) -> Option<fn(Self, Self) -> Self>;

    /// Replaces each of `numbers` by the result of `op` on it and the number of `operands` in the
    /// same place. Returns `None` without a change if the operation is not defined for the type.
    ///
    /// ```
    /// use strait_core::reduce::{Op, Reducible as _};
    ///
    /// let mut numbers = [1, 2];
    /// i32::combine(Op::Sum, &mut numbers, &[10, 10]);
    /// assert_eq!(numbers, [11, 12]);
    /// ```
    fn combine(op: Op, numbers: &mut [Self], operands: &[Self]) -> Option<()> {
        // Each operation has a loop of its own, which the compiler can turn into vectors.
        macro_rules! loops {
            ($($op:ident)*) => {
                match op {
                    $(Op::$op => {
                        let function = Self::function(Op::$op)?;
                        for (number, operand) in numbers.iter_mut().zip(operands) {
                            *number = function(*number, *operand);
                        }
                    })*
                }
            };
        }
        loops! { Sum Prod Min Max And Or Xor BitAnd BitOr BitXor Replace NoOp }
        Some(())
    }
}

/// A number that supports compare-and-swap.
pub trait Integer: Reducible {}

pub(crate) mod sealed {
    /// The conversion between a number and the word that holds it.
    pub trait Bits: Sized {
        type Word: crate::sync::AtomicWord;

        /// Number that stands for the type in messages to other processes.
        const KIND: u8;

        /// True if the sum of two numbers is the wrapping sum of their words.
        const ADDS_AS_WORD: bool;

        fn to_bits(self) -> Self::Word;

        fn from_bits(bits: Self::Word) -> Self;
    }
}

macro_rules! integers {
    ($($number:ident in $word:ident is $kind:literal,)*) => {$(
        impl Integer for $number {}

        impl Reducible for $number {
            const NAME: &'static str = stringify!($number);

            #[inline(always)]
            fn function(op: Op) -> Option<fn(Self, Self) -> Self> {
                Some(match op {
                    Op::Sum => Self::wrapping_add,
                    Op::Prod => Self::wrapping_mul,
                    Op::Min => |a, b| a.min(b),
                    Op::Max => |a, b| a.max(b),
                    Op::And => |a, b| Self::from(a != 0 && b != 0),
                    Op::Or => |a, b| Self::from(a != 0 || b != 0),
                    Op::Xor => |a, b| Self::from((a != 0) != (b != 0)),
                    Op::BitAnd => |a, b| a & b,
                    Op::BitOr => |a, b| a | b,
                    Op::BitXor => |a, b| a ^ b,
                    Op::Replace => |_, b| b,
                    Op::NoOp => |a, _| a,
                })
            }
        }

        impl sealed::Bits for $number {
            type Word = $word;

            const KIND: u8 = $kind;

            const ADDS_AS_WORD: bool = true;

            #[inline(always)]
            fn to_bits(self) -> $word {
                self as $word
            }

            #[inline(always)]
            fn from_bits(bits: $word) -> Self {
                bits as Self
            }
        }
    )*};
}

macro_rules! floats {
    ($($number:ident in $word:ident is $kind:literal,)*) => {$(
        impl Reducible for $number {
            const NAME: &'static str = stringify!($number);

            #[inline(always)]
            fn function(op: Op) -> Option<fn(Self, Self) -> Self> {
                Some(match op {
                    Op::Sum => |a, b| a + b,
                    Op::Prod => |a, b| a * b,
                    Op::Min => |a, b| a.min(b),
                    Op::Max => |a, b| a.max(b),
                    Op::Replace => |_, b| b,
                    Op::NoOp => |a, _| a,
                    Op::And | Op::Or | Op::Xor => return None,
                    Op::BitAnd | Op::BitOr | Op::BitXor => return None,
                })
            }
        }

        impl sealed::Bits for $number {
            type Word = $word;

            const KIND: u8 = $kind;

            const ADDS_AS_WORD: bool = false;

            #[inline(always)]
            fn to_bits(self) -> $word {
                self.to_bits()
            }

            #[inline(always)]
            fn from_bits(bits: $word) -> Self {
                Self::from_bits(bits)
            }
        }
    )*};
}

integers! {
    i8 in u8 is 0, i16 in u16 is 1, i32 in u32 is 2, i64 in u64 is 3,
    u8 in u8 is 4, u16 in u16 is 5, u32 in u32 is 6, u64 in u64 is 7,
}
floats! { f32 in u32 is 8, f64 in u64 is 9, }

/// Evaluates `$work` with `$number` as the type of a kind ([`sealed::Bits::KIND`]). Returns `None`
/// if there is no such kind.
macro_rules! with_number_of {
    ($kind:expr, $number:ident => $work:expr) => {
        $crate::reduce::with_number_of!(
            $kind, $number => $work; i8 i16 i32 i64 u8 u16 u32 u64 f32 f64
        )
    };
    ($kind:expr, $number:ident => $work:expr; $($type:ident)*) => {
        match $kind {
            $(kind if kind == <$type as $crate::reduce::sealed::Bits>::KIND => {
                type $number = $type;
                Some($work)
            })*
            _ => None,
        }
    };
}
pub(crate) use with_number_of;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_does_what_its_name_says() {
        let reduce = |op, a: i32, b| i32::function(op).unwrap()(a, b);
        assert_eq!(reduce(Op::Sum, i32::MAX, 1), i32::MIN);
        assert_eq!(reduce(Op::Prod, -3, 7), -21);
        assert_eq!(reduce(Op::Min, -3, 7), -3);
        assert_eq!(reduce(Op::Max, -3, 7), 7);
        assert_eq!([(0, 3), (5, 3), (0, 0)].map(|(a, b)| reduce(Op::And, a, b)), [0, 1, 0]);
        assert_eq!([(0, 3), (5, 3), (0, 0)].map(|(a, b)| reduce(Op::Or, a, b)), [1, 1, 0]);
        assert_eq!([(0, 3), (5, 3), (0, 0)].map(|(a, b)| reduce(Op::Xor, a, b)), [1, 0, 0]);
        assert_eq!(reduce(Op::BitAnd, 6, 3), 2);
        assert_eq!(reduce(Op::BitOr, 6, 3), 7);
        assert_eq!(reduce(Op::BitXor, 6, 3), 5);
        assert_eq!(reduce(Op::Replace, 6, 3), 3);
        assert_eq!(reduce(Op::NoOp, 6, 3), 6);
    }

    #[test]
    fn floats_have_no_bitwise_and_no_logical_operations() {
        for op in Op::ALL {
            let is_of_integers =
                !matches!(op, Op::Sum | Op::Prod | Op::Min | Op::Max | Op::Replace | Op::NoOp);
            assert_eq!(f32::function(op).is_none(), is_of_integers, "{op:?}");
            assert_eq!(f64::function(op).is_none(), is_of_integers, "{op:?}");
        }
        assert_eq!(f64::function(Op::Min).unwrap()(f64::NAN, 1.0), 1.0);
    }
}
