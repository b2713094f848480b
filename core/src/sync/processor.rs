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
