//! Private memory that the embedder lends to the engine.
//!
//! The core allocates nothing on its own: requests, matching bins and unexpected payloads live in memory that
//! comes through [`Memory`], so an embedder decides where it lies and how much there is.

mod block;
#[cfg(test)]
pub(crate) mod counted;
mod pinned;
mod slab;
mod table;

pub(crate) use block::Block;
pub use pinned::Pinned;
pub use slab::Slab;
pub use table::Table;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

/// Where private memory comes from: the system allocator in the `strait` crate, a static arena in a freestanding image.
///
/// # Safety
///
/// `allocate` returns memory that is valid for reads and writes of `layout.size()` bytes, aligned to `layout.align()`,
/// and used by nobody else until it is given to `release`.
pub unsafe trait Memory {
    /// Memory for `layout`, whose size is not zero; `None` when there is none left.
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Takes memory back.
    ///
    /// # Safety
    ///
    /// `memory` came from `allocate` of the same value with the same `layout` and is not used afterwards.
    unsafe fn release(&self, memory: NonNull<u8>, layout: Layout);
}

/// The embedder had no memory left. Nothing was changed; try again when memory is free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory for {} bytes of private state", self.bytes)
    }
}

impl core::error::Error for OutOfMemory {}
