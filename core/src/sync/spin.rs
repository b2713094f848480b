//! Short waits between two polls of a location that another processor writes.

use core::ptr::NonNull;

/// Tells the processor that this is a wait loop (`pause` on x86-64).
#[inline(always)]
#[allow(clippy::disallowed_methods, reason = "this is the facade")]
pub fn spin_hint() {
    #[cfg(not(strait_loom))]
    core::hint::spin_loop();
}

/// Waits between two polls of one word only until the first poll completes.
///
/// It is for the innermost wait for one cache line, where `pause` would delay the detection of an
/// arrival by 25 to 40 ns. An empty loop is no better: the processor speculates past the poll, into
/// later polls and the code after an arrival. That work is flushed when the line is invalidated,
/// which costs more than the poll. On x86-64 this is `lfence`.
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

/// Prefetches the cache line at `place` for writing. Does not wait for it.
#[inline(always)]
pub fn prefetch_to_write<T>(place: *mut T) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    // The compiler offers the intrinsic only where the whole program may use it. A processor that
    // does not know the instruction treats it as a `nop`.
    // SAFETY: a prefetch affects only timing, whatever the address.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    let _ = place;
}

/// Prefetches the cache line at `place` for reading. Does not wait for it.
#[inline(always)]
pub fn prefetch<T>(place: NonNull<T>) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    // SAFETY: a prefetch affects only timing, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
            place.as_ptr().cast(),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(strait_loom))))]
    let _ = place;
}
