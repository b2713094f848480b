//! Passing the time between two looks at what another processor writes.

use core::ptr::NonNull;

/// Tells the processor that this is a wait loop (`pause` on x86-64).
#[inline(always)]
#[allow(clippy::disallowed_methods, reason = "this is the facade")]
pub fn spin_hint() {
    #[cfg(not(strait_loom))]
    core::hint::spin_loop();
}

/// Passes no more time between two looks at one word than it takes to finish the first.
///
/// For the innermost wait for one cache line, where `pause` would keep us from seeing an arrival for 25 to 40 ns. Not
/// nothing either: a processor that runs ahead of a look, into the next ones and what follows an arrival, has to be
/// flushed when the line is taken away, which costs more than the look (`lfence` on x86-64).
#[inline(always)]
pub fn finish_look() {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    // SAFETY: `lfence` waits for earlier loads and has no other effect.
    unsafe {
        core::arch::asm!("lfence", options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    spin_hint();
}

/// Has the processor fetch the line at `place`, if it is not there, so that it may be written, without waiting for it.
#[inline(always)]
pub fn prefetch_to_write<T>(place: *mut T) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    // The intrinsic takes the instruction only where the whole program may; those that do not know it take it for a `nop`.
    // SAFETY: a prefetch has no effect but on time, whatever the address.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    let _ = place;
}

/// Has the processor fetch the line at `place`, if it is not there, without waiting for it.
#[inline(always)]
pub fn prefetch<T>(place: NonNull<T>) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    // SAFETY: a prefetch has no effect but on time, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
            place.as_ptr().cast(),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    let _ = place;
}
