//! The lender of private memory.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

/// A source of private memory: the system allocator in the `strait` crate, a static arena in a
/// freestanding image.
///
/// # Safety
///
/// `allocate` returns memory that is valid for reads and writes of `layout.size()` bytes and
/// aligned to `layout.align()`. Nothing else uses the memory until it is passed to `release`.
pub unsafe trait Memory {
    /// Allocates memory for `layout`, which has a non-zero size. Returns `None` when none is left.
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Takes memory back.
    ///
    /// # Safety
    ///
    /// `memory` came from `allocate` of the same value with the same `layout`, and nothing uses it
    /// afterwards.
    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout);
}

/// The embedder had no memory left. Nothing was changed; retry when memory is free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutOfMemory {
    /// Number of bytes requested.
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory for {} bytes of private state", self.bytes)
    }
}

impl core::error::Error for OutOfMemory {}
