//! Barriers between this processor and a device that accesses memory by itself (DMA).
//!
//! An acquire or a release orders what *processors* observe of each other. It does not order
//! devices on every machine. On aarch64, processors and devices are in different shareability
//! domains, inner and outer. A fence compiles to `dmb ish`, which covers only the inner domain.
//! Code that synchronises with a device therefore uses one of these barriers in addition, each with
//! a name for its use.
//!
//! On x86-64 none of them is an instruction. Devices take part in cache coherence, loads are not
//! reordered with loads nor stores with stores, and a full fence also orders device accesses.
//! Non-temporal stores (`copy_bulk`) end with their own fence.
//!
//! Loom has no device. In a model a thread plays the device, and only the atomics beside these
//! barriers take effect.

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

/// Keeps the compiler from reordering. The processor keeps its own order.
#[inline(always)]
#[cfg(not(all(target_arch = "aarch64", not(miri), not(strait_loom))))]
fn keep_order() {
    use super::Ordering;

    if cfg!(not(strait_loom)) {
        super::light::fence(Ordering::SeqCst);
    }
}

/// Orders the read of a payload after the read of a flag that a device wrote.
#[inline(always)]
pub fn payload_after_flag() {
    barrier!("dmb oshld");
}

/// Orders writes to memory before the doorbell that makes a device read that memory.
#[inline(always)]
pub fn payload_before_doorbell() {
    barrier!("dmb oshst");
}

/// Orders a store to a word that a peer's device reads before a load of a word that it writes.
///
/// The caller uses it beside a full fence.
#[inline(always)]
pub fn store_before_look() {
    barrier!("dmb osh");
}
