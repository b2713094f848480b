//! Memory to lend to a link.

use core::ptr::NonNull;

use strait_core::sync::CACHE_LINE;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct BlockLine(#[expect(dead_code, reason = "reached through pointers alone")] [u8; CACHE_LINE]);

/// Memory aligned to a cache line.
#[derive(Debug)]
pub struct Block {
    lines: NonNull<[BlockLine]>,
}

impl Block {
    /// Allocates `bytes` bytes, rounded up to a line: all zero.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let lines = vec![BlockLine([0; CACHE_LINE]); bytes.div_ceil(CACHE_LINE)];
        Self { lines: NonNull::from(Box::leak(lines.into_boxed_slice())) }
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.lines.cast()
    }

    /// Returns the length in bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.lines.len() * CACHE_LINE
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` leaked this box, and nothing else frees it.
        drop(unsafe { Box::from_raw(self.lines.as_ptr()) });
    }
}
