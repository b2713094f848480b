//! The atomics facade: the only module that names `core::sync::atomic`, `UnsafeCell` or loom.
//!
//! In production every item is a re-export or an inlined wrapper of its `core` namesake. Built with
//! `--cfg strait_loom` the same names are loom's, so the code that loom explores is the code that ships.
//!
//! Guarantees: no item here allocates or blocks in production. `SeqCst` accesses are not used anywhere in
//! the crate; a full fence is written as `fence(SeqCst)` with its reason.

mod atomic;
mod cell;
pub mod dma;
pub mod light;
mod order;
mod processor;
mod spin;
mod step;

pub use atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
pub use cell::UnsafeCell;
pub use core::sync::atomic::Ordering;
pub use order::order;
pub use processor::has_avx;
pub use spin::{finish_look, prefetch, prefetch_to_write, spin_hint};
pub use step::{Step, reached};
#[cfg(all(debug_assertions, not(strait_loom)))]
pub use step::{is_stopped, stop_at};

#[cfg(strait_loom)]
pub use loom::sync::atomic::fence;

/// A fence of this thread.
#[inline(always)]
#[cfg(not(strait_loom))]
#[allow(clippy::disallowed_methods, reason = "this is the facade")]
pub fn fence(ordering: Ordering) {
    use Ordering::{AcqRel, Acquire, Relaxed, Release};

    if cfg!(not(all(target_arch = "x86_64", not(miri))))
        || matches!(ordering, Relaxed | Acquire | Release | AcqRel)
    {
        return core::sync::atomic::fence(ordering);
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: it changes no bit of the stack. A locked instruction does all that `mfence`, which is what the compiler makes of a
    // full fence, does for ordinary memory, in a fifth of the time.
    unsafe {
        core::arch::asm!("lock or dword ptr [rsp], 0");
    }
}

/// Bytes that move between caches together. Every structure that two processes write is cut along it.
pub const CACHE_LINE: usize = 64;

/// A value alone on its cache line, so that a write to it takes no other word away from its reader.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct CacheLine<T>(pub T);

impl<T> core::ops::Deref for CacheLine<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
