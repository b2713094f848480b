//! Waiting for another processor: the one place that spins.

/// One wait loop. Every loop that waits for somebody else's store goes through it.
///
/// Under loom the first failed look yields, and a second ends the exploration of that execution (what was
/// asserted until then counts): two threads that spin at once would otherwise never terminate.
#[derive(Debug, Default)]
pub struct SpinWait {
    #[cfg(strait_loom)]
    looks: u32,
}

impl SpinWait {
    /// A wait that has not looked yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            #[cfg(strait_loom)]
            looks: 0,
        }
    }

    /// Passes the time between two looks.
    #[inline(always)]
    pub fn wait(&mut self) {
        #[cfg(strait_loom)]
        {
            self.looks += 1;
            if self.looks > 1 {
                loom::skip_branch();
            }
            loom::thread::yield_now();
        }
        spin_hint();
    }
}

/// Tells the processor that this is a wait loop (`pause` on x86-64).
#[inline(always)]
#[allow(clippy::disallowed_methods, reason = "this is the facade")]
pub fn spin_hint() {
    #[cfg(not(strait_loom))]
    core::hint::spin_loop();
}

/// Asks for the cache line at `address` in a writable state, ahead of its use. A hint: any address is allowed.
#[inline(always)]
pub fn prefetch_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(strait_loom)))]
    // SAFETY: `prefetchw` reads and writes no architectural state and does not fault on any address. Processors
    // without it (none since 2014) execute it as a no-op.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri), not(strait_loom)))]
    // SAFETY: `prfm` is a hint that does not fault on any address.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, strait_loom, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
