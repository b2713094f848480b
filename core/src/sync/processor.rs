//! Optional features of this processor, detected once at run time.

/// Returns true if the processor has 32-byte registers for loads and stores and the OS preserves
/// them. Returns false where detection is not available.
#[inline(always)]
#[must_use]
pub fn has_avx() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    return avx::get();
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    false
}

/// Returns true if the processor has arithmetic on integers in registers of 32 bytes and the OS
/// preserves them. Returns false where detection is not available.
#[inline(always)]
#[must_use]
pub fn has_avx2() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    return avx2::get();
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    false
}

/// Returns true if the string instruction (`rep movsb`) takes lines over from another core without
/// fetching their old contents, at any alignment. That was measured on AMD's processors from Zen 5
/// on. Earlier ones are slow at some alignments, and others were not measured.
#[inline(always)]
#[must_use]
pub fn has_fast_strings() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    return strings::get();
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    false
}

#[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
mod strings {
    use core::arch::x86_64::{__cpuid_count, CpuidResult};
    use core::sync::atomic::AtomicU8;
    use core::sync::atomic::Ordering::Relaxed;

    /// The family of Zen 5.
    const FAMILY: u32 = 0x1a;

    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;

    /// Each thread that finds no answer detects the same one.
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline(always)]
    pub(super) fn get() -> bool {
        match ANSWER.load(Relaxed) {
            UNKNOWN => detect(),
            answer => answer == YES,
        }
    }

    #[cold]
    fn detect() -> bool {
        let fast = is_fast();
        ANSWER.store(if fast { YES } else { NO }, Relaxed);
        fast
    }

    fn is_fast() -> bool {
        let CpuidResult { eax: most, ebx, ecx, edx } = leaf(0);
        let vendor = [ebx, edx, ecx].map(u32::to_le_bytes);
        if most < 7 || vendor.as_flattened() != b"AuthenticAMD" {
            return false;
        }
        let signature = leaf(1).eax;
        let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
        let has_fast_strings = leaf(7).ebx >> 9 & 1 == 1;
        family >= FAMILY && has_fast_strings
    }

    /// Returns what the processor says about itself in the first part of a leaf.
    #[allow(unused_unsafe, reason = "later versions of Rust have the function as a safe one")]
    fn leaf(number: u32) -> CpuidResult {
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { __cpuid_count(number, 0) }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
mod avx {
    cpufeatures::new!(answer, "avx");
    pub(super) use answer::get;
}

#[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
mod avx2 {
    cpufeatures::new!(answer, "avx2");
    pub(super) use answer::get;
}
