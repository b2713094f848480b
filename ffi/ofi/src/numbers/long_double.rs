//! C's `long double` of x86-64: the 80 bits of the x87, stored in 16 bytes. Rust has no such type,
//! so each step is an x87 instruction.

use core::arch::asm;
use core::cmp::Ordering;
use core::ops::{Add, Mul, Sub};

/// A `long double`. The last six bytes are padding.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(super) struct LongDouble([u8; 16]);

/// Defines a function that applies one instruction to two numbers.
macro_rules! arithmetic {
    ($operation:ident, $function:ident, $instruction:literal) => {
        impl $operation for LongDouble {
            type Output = Self;

            fn $function(self, other: Self) -> Self {
                let mut result = Self([0; 16]);
                // SAFETY: reads ten bytes of two numbers and writes those of a third; it pops what
                // it pushes.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{one}]",
                        "fld tbyte ptr [{other}]",
                        $instruction,
                        "fstp tbyte ptr [{result}]",
                        one = in(reg) &raw const self,
                        other = in(reg) &raw const other,
                        result = in(reg) &raw mut result,
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
                result
            }
        }
    };
}

arithmetic!(Add, add, "faddp st(1), st");
arithmetic!(Sub, sub, "fsubp st(1), st");
arithmetic!(Mul, mul, "fmulp st(1), st");

impl From<u8> for LongDouble {
    fn from(number: u8) -> Self {
        let (number, mut result) = (u16::from(number), Self([0; 16]));
        // SAFETY: reads ten bytes of each operand and an integer of two bytes, writes one result,
        // and pops what it pushes.
        unsafe {
            asm!(
                "fild word ptr [{number}]",
                "fstp tbyte ptr [{result}]",
                number = in(reg) &raw const number,
                result = in(reg) &raw mut result,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        result
    }
}

impl PartialOrd for LongDouble {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let (unordered, equal, above): (u8, u8, u8);
        // SAFETY: reads ten bytes of each operand, pops what it pushes, and writes nothing.
        unsafe {
            asm!(
                "fld tbyte ptr [{other}]",
                "fld tbyte ptr [{one}]",
                "fucomip st, st(1)",
                "setp {unordered}",
                "sete {equal}",
                "seta {above}",
                "fstp st(0)",
                one = in(reg) self,
                other = in(reg) other,
                unordered = out(reg_byte) unordered,
                equal = out(reg_byte) equal,
                above = out(reg_byte) above,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        match (unordered, equal, above) {
            (1, ..) => None,
            (_, 1, _) => Some(Ordering::Equal),
            (_, _, 1) => Some(Ordering::Greater),
            _ => Some(Ordering::Less),
        }
    }
}

impl PartialEq for LongDouble {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl LongDouble {
    /// Returns the smaller number. If one is not a number, returns the other.
    pub(super) fn min(self, other: Self) -> Self {
        if other < self || self.is_none() { other } else { self }
    }

    /// Returns the greater number. If one is not a number, returns the other.
    pub(super) fn max(self, other: Self) -> Self {
        if other > self || self.is_none() { other } else { self }
    }

    fn is_none(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u8) -> LongDouble {
        LongDouble::from(number)
    }

    #[test]
    fn it_has_the_bytes_of_c() {
        // The integer bit, and an exponent of 16383.
        let one = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f, 0, 0, 0, 0, 0, 0];
        assert_eq!(number(1).0, one);
        assert_eq!(number(0).0, [0; 16]);
    }

    #[test]
    fn it_computes_with_64_bits() {
        let large = (0..7).fold(number(255), |product, _| product * number(255));
        assert_eq!(large + number(1) - large, number(1), "a double has lost it");
        assert_eq!(number(6) * number(7), number(42));
        assert_eq!(number(6) - number(7) + number(1), number(0));
    }

    #[test]
    fn it_compares() {
        let none = {
            let zero = number(0);
            let infinite = (0..15).fold(number(255), |power, _| power * power);
            infinite * zero
        };
        assert!(number(3) < number(4) && number(4) > number(3));
        assert!(none != none && number(1).partial_cmp(&none).is_none());
        assert_eq!((number(3).min(number(4)), number(3).max(number(4))), (number(3), number(4)));
        assert_eq!((none.min(number(4)), number(4).max(none)), (number(4), number(4)));
    }
}
