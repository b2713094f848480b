//! What this processor has beyond what every one of its architecture has: asked once, at run time.

/// Whether there are registers of 32 bytes for loads and stores, and the system keeps them. False where nobody knows.
#[inline(always)]
#[must_use]
pub fn has_avx() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    return avx::get();
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    false
}

#[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
#[allow(clippy::disallowed_types, reason = "this is the facade")]
mod avx {
    cpufeatures::new!(answer, "avx");
    pub(super) use answer::get;
}
