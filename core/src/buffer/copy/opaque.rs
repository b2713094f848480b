//! Copies by code that the compiler cannot see into.
//!
//! One side of a copy lies in memory that another process can write. A correct process does not
//! write there during the copy, and a faulty one may. To the compiler that would be a data race,
//! which is undefined behaviour. So these copies are assembly, or functions of the C library that
//! are called by an unknown address. The compiler must assume that they do whatever atomic accesses
//! may do to that memory. A race then has one effect: the destination holds bytes of either value.

/// Copies `length` bytes by the C library. The two ranges may overlap.
///
/// # Safety
///
/// `source` is valid for reads and `destination` for writes of `length` bytes. Others may write the
/// bytes of either range meanwhile if they come from outside this program, or use a function of
/// this module or atomics.
#[inline(always)]
pub unsafe fn copy_opaque(source: *const u8, destination: *mut u8, length: usize) {
    // SAFETY: the caller guarantees valid ranges (contract of `copy_opaque`).
    #[cfg(miri)]
    unsafe {
        source.copy_to(destination, length);
    }
    #[cfg(not(miri))]
    {
        unsafe extern "C" {
            fn memmove(destination: *mut u8, source: *const u8, length: usize) -> *mut u8;
        }
        // SAFETY: the caller guarantees valid ranges (contract of `copy_opaque`).
        unsafe { forget_name(memmove)(destination, source, length) };
    }
}

/// A function that copies bytes.
#[cfg(not(miri))]
type CopyFunction = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;

/// Returns the same function, of which the compiler now knows only the type.
#[cfg(not(miri))]
#[inline(always)]
fn forget_name(function: CopyFunction) -> CopyFunction {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut function = function;
        // `black_box` would store the address on the stack and load it again.
        // SAFETY: there is no instruction, so the register keeps the function's address.
        #[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is called or read there")]
        unsafe {
            core::arch::asm!(
                "/* {0} */",
                inout(reg) function,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        function
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    core::hint::black_box(function)
}

/// Copies a line of 64 bytes by non-temporal stores of 16 bytes, which every processor of this
/// architecture has. All loads come before the stores, so that the line leaves the core as a whole.
///
/// # Safety
///
/// The contract of [`copy_opaque`] holds for 64 bytes, and `destination` is aligned to 16.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[inline(always)]
pub(super) unsafe fn stream_line(source: *const u8, destination: *mut u8) {
    // SAFETY: the accesses lie within the 64 bytes (contract of `stream_line`), and the
    // instructions change no flags and no stack.
    unsafe {
        core::arch::asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movntps [{to}], {a}",
            "movntps [{to} + 16], {b}",
            "movntps [{to} + 32], {c}",
            "movntps [{to} + 48], {d}",
            from = in(reg) source,
            to = in(reg) destination,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies `length` bytes by the string instruction. Where the two ranges overlap, the result is any
/// bytes.
///
/// # Safety
///
/// The contract of [`copy_opaque`] holds.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) unsafe fn copy_string(source: *const u8, destination: *mut u8, length: usize) {
    // SAFETY: the caller guarantees valid ranges (contract of `copy_string`). Functions are entered
    // and left with the direction flag clear, so the instruction counts up.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rsi") source => _,
            inout("rdi") destination => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies 128 bytes by registers of 32 bytes. All loads come before the stores, so that more lines
/// are in transit at a time.
///
/// # Safety
///
/// The contract of [`copy_opaque`] holds for 128 bytes, and the processor has the registers.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[target_feature(enable = "avx")]
#[inline]
pub(super) unsafe fn copy_two_lines(source: *const u8, destination: *mut u8) {
    // SAFETY: the accesses lie within the 128 bytes (contract of `copy_two_lines`), and the
    // instructions change no flags and no stack.
    unsafe {
        core::arch::asm!(
            "vmovups {a}, [{from}]",
            "vmovups {b}, [{from} + 32]",
            "vmovups {c}, [{from} + 64]",
            "vmovups {d}, [{from} + 96]",
            "vmovups [{to}], {a}",
            "vmovups [{to} + 32], {b}",
            "vmovups [{to} + 64], {c}",
            "vmovups [{to} + 96], {d}",
            from = in(reg) source,
            to = in(reg) destination,
            a = out(ymm_reg) _,
            b = out(ymm_reg) _,
            c = out(ymm_reg) _,
            d = out(ymm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_may_overlap() {
        let mut bytes: [u8; 40] = core::array::from_fn(|at| at as u8);
        let base = bytes.as_mut_ptr();
        // SAFETY: both ranges lie in the array.
        unsafe { copy_opaque(base, base.add(3), 30) };
        assert_eq!(bytes[3..33], core::array::from_fn::<u8, 30, _>(|at| at as u8));
    }
}
