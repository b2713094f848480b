//! The arithmetic of atomic operations: libfabric's types and operators (`fi_atomic(3)`).
//!
//! Absent: `long double` on processors other than x86-64. MPI libraries then combine them
//! themselves.

#[cfg(target_arch = "x86_64")]
mod long_double;

use core::ops::{Add, BitAnd, BitOr, BitXor, Mul};

/// A number as it lies in memory.
trait NumberElement: Copy + PartialEq {
    /// Combines `old` and `new` by `operator`. Returns `None` if this type lacks the operator.
    fn combine(operator: u32, old: Self, new: Self) -> Option<Self>;

    /// Applies `operator`, which compares with a third number, to `old`. Returns `None` if this
    /// type lacks the operator.
    fn swap(operator: u32, old: Self, new: Self, compare: Self) -> Option<Self>;
}

const MIN: u32 = 0;
const MAX: u32 = 1;
const SUM: u32 = 2;
const PROD: u32 = 3;
const LOR: u32 = 4;
const LAND: u32 = 5;
const BOR: u32 = 6;
const BAND: u32 = 7;
const LXOR: u32 = 8;
const BXOR: u32 = 9;
pub(crate) const READ: u32 = 10;
const WRITE: u32 = 11;
const CSWAP: u32 = 12;
const CSWAP_NE: u32 = 13;
const CSWAP_LE: u32 = 14;
const CSWAP_LT: u32 = 15;
const CSWAP_GE: u32 = 16;
const CSWAP_GT: u32 = 17;
const MSWAP: u32 = 18;

/// Applies the operators that all types share, and passes the rest to `others`.
fn basic<T: NumberElement>(
    operator: u32,
    (old, new): (T, T),
    is_true: impl Fn(T) -> bool,
    truth: impl Fn(bool) -> T,
    others: impl Fn() -> Option<T>,
) -> Option<T> {
    let (a, b) = (is_true(old), is_true(new));
    Some(match operator {
        READ => old,
        WRITE => new,
        LOR => truth(a | b),
        LAND => truth(a & b),
        LXOR => truth(a ^ b),
        _ => return others(),
    })
}

/// Returns `new` if `compare` and `old` satisfy `operator`, else `old`. The comparison has
/// `compare` on its left.
fn swap_if<T: NumberElement + PartialOrd>(
    operator: u32,
    (old, new): (T, T),
    compare: T,
) -> Option<T> {
    let yes = match operator {
        CSWAP => compare == old,
        CSWAP_NE => compare != old,
        CSWAP_LE => compare <= old,
        CSWAP_LT => compare < old,
        CSWAP_GE => compare >= old,
        CSWAP_GT => compare > old,
        _ => return None,
    };
    Some(if yes { new } else { old })
}

macro_rules! integers {
    ($($number:ty)*) => {$(
        impl NumberElement for $number {
            fn combine(operator: u32, old: Self, new: Self) -> Option<Self> {
                basic(operator, (old, new), |x| x != 0, Self::from, || Some(match operator {
                    MIN => old.min(new),
                    MAX => old.max(new),
                    SUM => old.wrapping_add(new),
                    PROD => old.wrapping_mul(new),
                    BOR => old.bitor(new),
                    BAND => old.bitand(new),
                    BXOR => old.bitxor(new),
                    _ => return None,
                }))
            }

            fn swap(operator: u32, old: Self, new: Self, compare: Self) -> Option<Self> {
                match operator {
                    MSWAP => Some(new & compare | old & !compare),
                    _ => swap_if(operator, (old, new), compare),
                }
            }
        }
    )*};
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128);

macro_rules! floats {
    ($($number:ty, $zero:expr, $one:expr;)*) => {$(
        impl NumberElement for $number {
            fn combine(operator: u32, old: Self, new: Self) -> Option<Self> {
                let truth = |truth| if truth { $one } else { $zero };
                basic(operator, (old, new), |x| x != $zero, truth, || Some(match operator {
                    MIN => old.min(new),
                    MAX => old.max(new),
                    SUM => old + new,
                    PROD => old * new,
                    _ => return None,
                }))
            }

            fn swap(operator: u32, old: Self, new: Self, compare: Self) -> Option<Self> {
                swap_if(operator, (old, new), compare)
            }
        }
    )*};
}

floats! {
    f32, 0.0, 1.0;
    f64, 0.0, 1.0;
}

#[cfg(target_arch = "x86_64")]
floats! {
    long_double::LongDouble, Self::from(0), Self::from(1);
}

/// A complex number in the layout of C.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
struct Complex<T>(T, T);

impl<T> NumberElement for Complex<T>
where
    T: Copy + PartialEq + From<u8> + Add<Output = T> + Mul<Output = T> + core::ops::Sub<Output = T>,
{
    fn combine(operator: u32, old: Self, new: Self) -> Option<Self> {
        let zero = Self(T::from(0), T::from(0));
        let truth = |truth: bool| Self(T::from(u8::from(truth)), T::from(0));
        basic(
            operator,
            (old, new),
            |number| number != zero,
            truth,
            || {
                Some(match operator {
                    SUM => Self(old.0 + new.0, old.1 + new.1),
                    PROD => Self(old.0 * new.0 - old.1 * new.1, old.0 * new.1 + old.1 * new.0),
                    _ => return None,
                })
            },
        )
    }

    fn swap(operator: u32, old: Self, new: Self, compare: Self) -> Option<Self> {
        match operator {
            CSWAP => Some(if compare == old { new } else { old }),
            CSWAP_NE => Some(if compare == old { old } else { new }),
            _ => None,
        }
    }
}

/// A function over elements of any type.
trait Visitor {
    type Output;
    fn visit<T: NumberElement>(self) -> Self::Output;
}

/// Calls a visitor with the type of libfabric's number `datatype`. Returns `None` for a type that
/// is not served.
fn with_type<V: Visitor>(datatype: u32, visitor: V) -> Option<V::Output> {
    Some(match datatype {
        0 => visitor.visit::<i8>(),
        1 => visitor.visit::<u8>(),
        2 => visitor.visit::<i16>(),
        3 => visitor.visit::<u16>(),
        4 => visitor.visit::<i32>(),
        5 => visitor.visit::<u32>(),
        6 => visitor.visit::<i64>(),
        7 => visitor.visit::<u64>(),
        8 => visitor.visit::<f32>(),
        9 => visitor.visit::<f64>(),
        10 => visitor.visit::<Complex<f32>>(),
        11 => visitor.visit::<Complex<f64>>(),
        #[cfg(target_arch = "x86_64")]
        12 => visitor.visit::<long_double::LongDouble>(),
        #[cfg(target_arch = "x86_64")]
        13 => visitor.visit::<Complex<long_double::LongDouble>>(),
        14 => visitor.visit::<i128>(),
        15 => visitor.visit::<u128>(),
        _ => return None,
    })
}

/// The form of an operation: how it uses its operands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Form {
    /// The old value is discarded.
    Write = 0,
    /// The old value is returned.
    Fetch = 1,
    /// The operation compares with a third number, and returns the old value.
    Compare = 2,
}

impl Form {
    /// Parses a form that a peer wrote.
    pub(crate) const fn parse(raw: u8) -> Option<Self> {
        Some(match raw {
            0 => Self::Write,
            1 => Self::Fetch,
            2 => Self::Compare,
            _ => return None,
        })
    }
}

/// Returns the size of an element in bytes, if the operation is served.
pub(crate) fn element_bytes(datatype: u32, operator: u32, form: Form) -> Option<usize> {
    struct Ask(u32, Form);
    impl Visitor for Ask {
        type Output = Option<usize>;
        fn visit<T: NumberElement>(self) -> Option<usize> {
            // SAFETY: any bytes are a valid number of each type.
            let zero: T = unsafe { core::mem::zeroed() };
            let served = match self.1 {
                Form::Write => self.0 != READ && T::combine(self.0, zero, zero).is_some(),
                Form::Fetch => T::combine(self.0, zero, zero).is_some(),
                Form::Compare => T::swap(self.0, zero, zero, zero).is_some(),
            };
            served.then_some(size_of::<T>())
        }
    }
    with_type(datatype, Ask(operator, form)).flatten()
}

/// Applies an operation to the elements at `target`, one for each of `operands`, and stores their
/// previous values in `old`.
///
/// # Safety
///
/// `target` is valid for reads and writes of as many bytes as `operands` has. `compare` is as long,
/// or empty for operations without a comparison. `old` has as much room, or is empty when the old
/// values are not wanted.
pub(crate) unsafe fn apply(
    (datatype, operator): (u32, u32),
    target: *mut u8,
    operands: &[u8],
    compare: &[u8],
    old: &mut [u8],
) {
    struct Apply<'a>(u32, *mut u8, &'a [u8], &'a [u8], &'a mut [u8]);
    impl Visitor for Apply<'_> {
        type Output = ();
        fn visit<T: NumberElement>(self) {
            let Self(operator, target, operands, compare, old) = self;
            let size = size_of::<T>();
            for at in (0..operands.len() / size).map(|number| number * size) {
                // SAFETY: the target has as many bytes as the operands (contract of `apply`), and
                // any bytes are a valid number.
                unsafe {
                    let place = target.add(at).cast::<T>();
                    let before = place.read_unaligned();
                    let operand = operands.as_ptr().add(at).cast::<T>().read_unaligned();
                    let after = if compare.is_empty() {
                        T::combine(operator, before, operand)
                    } else {
                        let third = compare.as_ptr().add(at).cast::<T>().read_unaligned();
                        T::swap(operator, before, operand, third)
                    };
                    if !old.is_empty() {
                        old.as_mut_ptr().add(at).cast::<T>().write_unaligned(before);
                    }
                    if let Some(after) = after {
                        place.write_unaligned(after);
                    }
                }
            }
        }
    }
    with_type(datatype, Apply(operator, target, operands, compare, old));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies `operator` to 6 and 3 of type `T`. Returns the result and the old value.
    fn on<T: Copy>(datatype: u32, operator: u32, target: T, operand: T, third: &[T]) -> (T, T) {
        let bytes = |values: &[T]| {
            // SAFETY: `T` is a type of numbers, and the bytes of a number may be read.
            unsafe {
                core::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values))
            }
            .to_vec()
        };
        let (mut target, mut old) = ([target], bytes(&[target]));
        // SAFETY: the source has as many bytes as the operand.
        unsafe {
            let place = target.as_mut_ptr().cast();
            apply((datatype, operator), place, &bytes(&[operand]), &bytes(third), &mut old);
            (target[0], old.as_ptr().cast::<T>().read_unaligned())
        }
    }

    #[test]
    fn operators_compute_their_results() {
        assert_eq!(on(4, SUM, 6_i32, 3, &[]), (9, 6));
        assert_eq!(on(4, MIN, 6_i32, -3, &[]).0, -3);
        assert_eq!(on(1, SUM, 255_u8, 2, &[]).0, 1);
        assert_eq!(on(7, BXOR, 6_u64, 3, &[]).0, 5);
        assert_eq!(on(7, LAND, 6_u64, 3, &[]).0, 1);
        assert_eq!(on(9, PROD, 1.5_f64, 4.0, &[]).0, 6.0);
        assert_eq!(on(9, READ, 1.5_f64, 4.0, &[]), (1.5, 1.5));
        assert_eq!(on(11, PROD, [0.0, 1.0_f64], [0.0, 1.0], &[]).0, [-1.0, 0.0]);
        assert_eq!(on(10, SUM, [1.0, 2.0_f32], [3.0, 4.0], &[]).0, [4.0, 6.0]);
    }

    #[test]
    fn a_swap_compares_the_third_number_with_the_old_one() {
        assert_eq!(on(7, CSWAP, 6_u64, 9, &[6]), (9, 6));
        assert_eq!(on(7, CSWAP, 6_u64, 9, &[5]), (6, 6));
        assert_eq!(on(7, CSWAP_LT, 6_u64, 9, &[5]).0, 9);
        assert_eq!(on(7, CSWAP_GE, 6_u64, 9, &[5]).0, 6);
        assert_eq!(on(5, MSWAP, 0b1100_u32, 0b1010, &[0b0110]).0, 0b1010);
    }

    #[test]
    fn numbers_of_128_bits_are_whole() {
        let large = 1_i128 << 100;
        assert_eq!(on(14, SUM, large, -1, &[]), (large - 1, large));
        assert_eq!(on(14, MIN, large, -1, &[]).0, -1);
        assert_eq!(on(15, PROD, 1_u128 << 100, 1 << 27, &[]).0, 1 << 127);
        assert_eq!(on(15, CSWAP, u128::MAX, 7, &[u128::MAX]).0, 7);
        assert_eq!(element_bytes(15, MSWAP, Form::Compare), Some(16));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn long_doubles_are_combined_too() {
        let [one, two, six] = [1, 2, 6].map(long_double::LongDouble::from);
        assert_eq!(on(12, SUM, six, two, &[]), (six + two, six));
        assert_eq!(on(12, LXOR, six, six, &[]).0, one - one);
        assert_eq!(on(12, CSWAP_GT, six, one, &[six + one]).0, one);
        // (6 + 2i)(2 + 6i) = 40i.
        let product = on(13, PROD, [six, two], [two, six], &[]).0;
        assert_eq!(product, [one - one, six * six + two * two]);
        assert_eq!(element_bytes(13, CSWAP, Form::Compare), Some(32));
    }

    #[test]
    fn operators_that_a_type_lacks_are_not_served() {
        assert_eq!(element_bytes(9, BOR, Form::Write), None);
        assert_eq!(element_bytes(9, SUM, Form::Write), Some(8));
        assert_eq!(element_bytes(4, READ, Form::Write), None);
        assert_eq!(element_bytes(4, READ, Form::Fetch), Some(4));
        assert_eq!(element_bytes(11, CSWAP_LT, Form::Compare), None);
        assert_eq!(element_bytes(11, CSWAP, Form::Compare), Some(16));
        assert_eq!(element_bytes(12, BOR, Form::Write), None);
        assert_eq!(element_bytes(13, MAX, Form::Write), None);
        assert_eq!(element_bytes(16, SUM, Form::Write), None);
        assert_eq!(element_bytes(4, CSWAP, Form::Fetch), None);
        assert_eq!(element_bytes(4, SUM, Form::Compare), None);
    }
}
