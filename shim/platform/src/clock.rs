//! The clock of records and events.

/// Returns the time of the machine's monotonic clock, which all processes share.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Not rustix's function: that looks up the kernel's vDSO itself, and crashes where an emulator
    // such as valgrind hides the vDSO.
    // SAFETY: the call writes one structure, which `now` is. Every Linux has this clock, so the
    // call does not fail.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
