//! The atomics facade: the only module that names `core::sync::atomic`, `UnsafeCell` or loom.
//!
//! In production every item is a re-export or an inlined wrapper of its `core` namesake. With
//! `--cfg strait_loom` the same names are loom's, so loom explores the code that ships.
//!
//! Guarantees: no item here allocates or blocks in production. The crate has no `SeqCst` access; a
//! full fence is written as `fence(SeqCst)` with its reason.

mod atomic;
mod cell;
pub mod dma;
pub mod light;
mod once;
mod order;
mod ordering;
mod processor;
mod spin;
mod step;
pub(crate) mod word;

pub use atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64};
pub use cell::UnsafeCell;
pub(crate) use once::read_once;
pub use order::order;
pub use ordering::Ordering;
pub use processor::{has_avx, has_avx2, has_fast_kernel_copies, has_fast_strings};
pub use spin::{finish_look, prefetch, prefetch_to_write, spin_hint};
pub use step::{Step, reached};
#[cfg(all(debug_assertions, not(strait_loom)))]
pub use step::{is_stopped, stop_at};
pub use word::AtomicWord;

#[cfg(strait_loom)]
pub use loom::sync::atomic::fence;

/// Issues a fence on this thread.
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
    // SAFETY: the instruction ORs zero into the top of the stack, so no bit of memory changes. On
    // ordinary memory a locked instruction has the effect of `mfence`, which the compiler emits for
    // a full fence, in a fifth of the time.
    unsafe {
        core::arch::asm!("lock or dword ptr [rsp], 0");
    }
}

/// Size in bytes of a cache line. Structures that two processes write are split along it.
pub const CACHE_LINE: usize = 64;

/// A value alone on its cache line, so that a write to it does not invalidate another word.
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
