//! Plain arithmetic on numbers of a part, for the holder of their lock.
//!
//! Other ranks may still put to the same bytes, in a program that is wrong. So the part's bytes are
//! accessed by copies and loops that the compiler cannot see into
//! ([`crate::buffer::copy::copy_opaque`]), and the arithmetic is done in between.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::buffer::copy::copy_opaque;
use crate::reduce::{Op, Reducible};

/// Number of bytes that are combined at a time. They stay in the cache nearest to the processor,
/// and `memmove` copies them by its fastest loop.
const CHUNK: usize = 1024;

/// Combines the numbers at `place` with `operands`, and stores the previous ones in `results`, if
/// there are any. Returns `None` without a change if `op` is not defined for the type.
///
/// # Safety
///
/// - `place` is aligned to the size of a number, and valid for reads and writes of as many numbers
///   as `operands` has.
/// - No other accumulate accesses these numbers until this returns. Other accesses go through
///   [`super::transfer()`] or [`super::SharedNumber`], or come from outside this program.
///
/// # Panics
///
/// Panics if `results` and `operands` have different lengths.
pub unsafe fn combine_plain<T: Reducible>(
    place: NonNull<u8>,
    operands: &[T],
    mut results: Option<&mut [T]>,
    op: Op,
) -> Option<()> {
    T::function(op)?;
    if let Some(results) = &results {
        assert_eq!(results.len(), operands.len(), "a result for each operand");
    } else {
        // SAFETY: the caller guarantees valid numbers, of which there are as many as operands
        // (contract of `combine_plain`).
        if unsafe { sum::add(place, operands, op) } {
            return Some(());
        }
    }
    let mut chunk = [const { MaybeUninit::<u64>::uninit() }; CHUNK / size_of::<u64>()];
    let most = CHUNK / size_of::<T>();
    for (number, operands) in operands.chunks(most).enumerate() {
        let (start, bytes) = (number * most, size_of_val(operands));
        // SAFETY: the numbers start within those of the caller.
        let there = unsafe { place.add(start * size_of::<T>()) };
        // SAFETY: both sides have these bytes, and the chunk is local. Any bytes are a valid
        // number, and the chunk is aligned for all types.
        let numbers = unsafe {
            copy_opaque(there.as_ptr(), chunk.as_mut_ptr().cast(), bytes);
            core::slice::from_raw_parts_mut(chunk.as_mut_ptr().cast::<T>(), operands.len())
        };
        if let Some(results) = results.as_deref_mut() {
            results[start..start + operands.len()].copy_from_slice(numbers);
        }
        T::combine(op, numbers, operands)?;
        if op != Op::NoOp {
            // SAFETY: as above.
            unsafe { copy_opaque(chunk.as_ptr().cast(), there.as_ptr(), bytes) };
        }
    }
    Some(())
}

/// Sums, by far the most frequent accumulates, in one pass over the part.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri), not(strait_loom)))]
mod sum {
    use core::arch::asm;
    use core::ptr::NonNull;

    use crate::reduce::{Op, Reducible};
    use crate::sync::has_avx2;

    /// Number of bytes that one iteration of a loop adds.
    const STEP: usize = 128;

    /// A loop that adds vectors of `$add`.
    macro_rules! loop_of {
        ($name:ident, $add:literal) => {
            /// Adds `steps` times [`STEP`] bytes.
            ///
            /// # Safety
            ///
            /// `from` is valid for reads and `to` for reads and writes of that many bytes, and the
            /// processor has AVX2. Others may access the bytes at `to` meanwhile.
            #[target_feature(enable = "avx2")]
            unsafe fn $name(to: *mut u8, from: *const u8, steps: usize) {
                // SAFETY: the accesses lie within `steps * STEP` bytes (contract of this function).
                // The instructions use no stack.
                unsafe {
                    asm!(
                        "2:",
                        "vmovdqu {a}, [{to}]",
                        "vmovdqu {b}, [{to} + 32]",
                        "vmovdqu {c}, [{to} + 64]",
                        "vmovdqu {d}, [{to} + 96]",
                        concat!($add, " {a}, {a}, [{from}]"),
                        concat!($add, " {b}, {b}, [{from} + 32]"),
                        concat!($add, " {c}, {c}, [{from} + 64]"),
                        concat!($add, " {d}, {d}, [{from} + 96]"),
                        "vmovdqu [{to}], {a}",
                        "vmovdqu [{to} + 32], {b}",
                        "vmovdqu [{to} + 64], {c}",
                        "vmovdqu [{to} + 96], {d}",
                        "add {to}, 128",
                        "add {from}, 128",
                        "dec {steps}",
                        "jnz 2b",
                        to = inout(reg) to => _,
                        from = inout(reg) from => _,
                        steps = inout(reg) steps => _,
                        a = out(ymm_reg) _,
                        b = out(ymm_reg) _,
                        c = out(ymm_reg) _,
                        d = out(ymm_reg) _,
                        options(nostack),
                    );
                }
                // The compiler does this only for instructions of its own.
                core::arch::x86_64::_mm256_zeroupper();
            }
        };
    }

    loop_of! { add_words, "vpaddq" }
    loop_of! { add_halves, "vpaddd" }
    loop_of! { add_doubles, "vaddpd" }
    loop_of! { add_floats, "vaddps" }

    /// Adds `operands` to the numbers at `place`, if it has a loop for that. Returns false without
    /// a change otherwise.
    ///
    /// # Safety
    ///
    /// The contract of [`super::combine_plain`].
    #[inline]
    pub(super) unsafe fn add<T: Reducible>(place: NonNull<u8>, operands: &[T], op: Op) -> bool {
        let steps = size_of_val(operands) / STEP;
        let Some(function) = T::function(op) else { return false };
        if op != Op::Sum || steps == 0 || !has_avx2() {
            return false;
        }
        let (to, from) = (place.as_ptr(), operands.as_ptr().cast());
        // SAFETY: the caller guarantees valid numbers (contract of `add`), and the processor has
        // the instructions.
        unsafe {
            match (T::ADDS_AS_WORD, size_of::<T>()) {
                (true, 8) => add_words(to, from, steps),
                (true, 4) => add_halves(to, from, steps),
                (false, 8) => add_doubles(to, from, steps),
                (false, 4) => add_floats(to, from, steps),
                _ => return false,
            }
        }
        let done = steps * STEP / size_of::<T>();
        for (number, operand) in operands.iter().enumerate().skip(done) {
            // SAFETY: the number lies within those of the caller, and is aligned.
            let number = unsafe {
                let there = place.add(number * size_of::<T>());
                super::super::SharedNumber::<T>::new(there)
            };
            number.store(function(number.load(), *operand));
        }
        true
    }
}

/// There are no loops of our own for this target.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri), not(strait_loom))))]
mod sum {
    use core::ptr::NonNull;

    use crate::reduce::{Op, Reducible};

    /// # Safety
    ///
    /// None is needed.
    pub(super) unsafe fn add<T: Reducible>(_: NonNull<u8>, _: &[T], _: Op) -> bool {
        false
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn check<T: Reducible + PartialEq + core::fmt::Debug>(of: impl Fn(u8) -> T) {
        // Whole steps of the loops, a rest, and more than a chunk, which takes Miri too long.
        let counts = [0, 1, 3, 16, 37, 300];
        for count in counts.into_iter().take(if cfg!(miri) { 5 } else { 6 }) {
            let operands: Vec<T> = (0..count).map(|number| of((number * 7 + 3) as u8)).collect();
            let before: Vec<T> = (0..count + 2).map(|number| of((number * 5) as u8)).collect();
            for op in Op::ALL {
                for wants in [false, true] {
                    let mut numbers = before.clone();
                    let mut results: Vec<T> = operands.clone();
                    let place = NonNull::from(&mut numbers[1..]).cast();
                    // SAFETY: the numbers belong to this test and there are enough of them.
                    let combined = unsafe {
                        combine_plain(place, &operands, wants.then_some(&mut results[..]), op)
                    };
                    let function = T::function(op);
                    assert_eq!(combined.is_some(), function.is_some(), "{op:?}");
                    let Some(function) = function else { continue };
                    for (at, operand) in operands.iter().enumerate() {
                        let expected = function(before[at + 1], *operand);
                        assert_eq!(numbers[at + 1], expected, "{op:?} of {}", T::NAME);
                        assert!(!wants || results[at] == before[at + 1], "{op:?} of {}", T::NAME);
                    }
                    assert_eq!((numbers[0], numbers[count + 1]), (before[0], before[count + 1]));
                }
            }
        }
    }

    #[test]
    fn numbers_are_combined_as_one_by_one_and_none_beside_them() {
        check(|byte| byte as i8);
        check(|byte| i16::from(byte) - 100);
        check(|byte| i32::from(byte) - 100);
        check(|byte| i64::from(byte) - 100);
        check(|byte| byte);
        check(u16::from);
        check(|byte| u32::from(byte) << 24);
        check(|byte| u64::from(byte) << 56);
        check(f32::from);
        check(|byte| f64::from(byte) / 3.0);
    }
}
