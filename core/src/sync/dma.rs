//! Barriers between this processor and a device that reaches memory by itself (DMA).
//!
//! An acquire or a release orders what *processors* see of each other, and on some machines no more than that: aarch64 keeps
//! processors and devices in different domains, inner and outer, and `dmb ish`, which a fence is there, ends at the inner one. So
//! where the other side is a device there is one of these besides, with a name for each use. On x86-64 none is an instruction:
//! devices take part in the caches' protocol, loads stay behind loads and stores behind stores, and a full fence is one for
//! devices, too. Stores past the caches (`copy_bulk`) end with their own fence.
//!
//! Loom knows no device: in a model it is a thread, and the atomics beside these barriers are all there is.

#[cfg(all(target_arch = "aarch64", not(miri), not(strait_loom)))]
macro_rules! barrier {
    ($instruction:literal) => {
        // SAFETY: a barrier changes neither registers nor memory.
        unsafe { core::arch::asm!($instruction, options(nostack, preserves_flags)) }
    };
}

#[cfg(not(all(target_arch = "aarch64", not(miri), not(strait_loom))))]
macro_rules! barrier {
    ($instruction:literal) => {
        keep_order()
    };
}

/// Keeps the compiler's order; the processor keeps its own.
#[inline(always)]
#[cfg(not(all(target_arch = "aarch64", not(miri), not(strait_loom))))]
fn keep_order() {
    use super::Ordering;

    if cfg!(not(strait_loom)) {
        super::light::fence(Ordering::SeqCst);
    }
}

/// After a flag that a device wrote was seen, before what it stands for is read.
#[inline(always)]
pub fn payload_after_flag() {
    barrier!("dmb oshld");
}

/// After memory was written, before the doorbell has a device read it.
#[inline(always)]
pub fn payload_before_doorbell() {
    barrier!("dmb oshst");
}

/// After a word was written that a peer's device reads, before a look at one that it writes. Beside a full fence.
#[inline(always)]
pub fn store_before_look() {
    barrier!("dmb osh");
}
