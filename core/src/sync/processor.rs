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
/// fetching their old contents, at any alignment. That was measured on AMD's Zen 5 and on Intel's
/// fifth Xeon (Emerald Rapids). It is assumed of later ones of AMD, and of those of Intel that
/// report fast short strings. Earlier ones of AMD are slow at some alignments.
#[inline(always)]
#[must_use]
pub fn has_fast_strings() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    return strings::get() != strings::NO;
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    false
}

/// Returns true if one copy by the kernel moves data between cores without a common cache about as
/// fast as two copies through shared memory at once. That was measured on Intel's fifth Xeon, and
/// is assumed where [`has_fast_strings`] is true of a processor of Intel.
#[inline(always)]
#[must_use]
pub fn has_fast_kernel_copies() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    return strings::get() == strings::INTEL;
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    false
}

#[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
mod strings {
    use core::arch::x86_64::{__cpuid_count, CpuidResult};
    use core::sync::atomic::AtomicU8;
    use core::sync::atomic::Ordering::Relaxed;

    /// AMD's family of Zen 5.
    const FAMILY: u32 = 0x1a;

    const UNKNOWN: u8 = 0;
    /// Strings are slow, or that is not known.
    pub(super) const NO: u8 = 1;
    const AMD: u8 = 2;
    pub(super) const INTEL: u8 = 3;

    /// Each thread that finds no answer detects the same one.
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Returns the maker of the processor if its strings are fast.
    #[inline(always)]
    pub(super) fn get() -> u8 {
        match ANSWER.load(Relaxed) {
            UNKNOWN => detect(),
            answer => answer,
        }
    }

    #[cold]
    fn detect() -> u8 {
        let answer = maker_of_fast();
        ANSWER.store(answer, Relaxed);
        answer
    }

    fn maker_of_fast() -> u8 {
        let CpuidResult { eax: most, ebx, ecx, edx } = leaf(0);
        if most < 7 {
            return NO;
        }
        let (signature, features) = (leaf(1).eax, leaf(7));
        let has_fast_strings = features.ebx >> 9 & 1 == 1;
        let has_fast_short_strings = features.edx >> 4 & 1 == 1;
        let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
        match [ebx, edx, ecx].map(u32::to_le_bytes).as_flattened() {
            b"AuthenticAMD" if has_fast_strings && family >= FAMILY => AMD,
            b"GenuineIntel" if has_fast_strings && has_fast_short_strings => INTEL,
            _ => NO,
        }
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
