//! A contiguous run of plain values that is replaced when it grows.
//!
//! [`Slab`](super::Slab) and the matching bins see a slice; the unsafe code behind them is here.
//! Every element is initialised as soon as the block exists.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use super::{Memory, OutOfMemory};

/// A slice that owns its memory. It starts empty and without an allocation.
pub(crate) struct OwnedSlice<T: Copy, M: Memory> {
    /// Dangling while `len` is zero. Otherwise a pointer from `memory` for `[T; len]`, with every
    /// element initialised.
    start: NonNull<T>,
    len: usize,
    memory: M,
}

// SAFETY: a block is the only owner of its elements, as a `Box<[T]>` is, and shares none of them.
unsafe impl<T: Copy + Send, M: Memory + Send> Send for OwnedSlice<T, M> {}
// SAFETY: a shared block gives out only shared slices.
unsafe impl<T: Copy + Sync, M: Memory + Sync> Sync for OwnedSlice<T, M> {}

impl<T: Copy, M: Memory> OwnedSlice<T, M> {
    /// Creates a block without elements or memory.
    pub(crate) const fn new(memory: M) -> Self {
        Self { start: NonNull::dangling(), len: 0, memory }
    }

    /// Replaces the elements with `len` copies of `fill`. `carry` then copies values to keep from
    /// the old elements (first argument) to the new ones. Without memory the block stays unchanged.
    pub(crate) fn replace(
        &mut self,
        len: usize,
        fill: T,
        carry: impl FnOnce(&[T], &mut [T]),
    ) -> Result<(), OutOfMemory> {
        const { assert!(size_of::<T>() != 0, "zero-sized elements need no memory") };
        let bytes = len.saturating_mul(size_of::<T>());
        let layout = Layout::array::<T>(len).map_err(|_| OutOfMemory { bytes })?;
        if bytes == 0 {
            self.release();
            return Ok(());
        }
        let start = self.memory.allocate(layout).ok_or(OutOfMemory { bytes })?.cast::<T>();
        // SAFETY: `allocate` returned exclusive, aligned memory for `len` elements; `MaybeUninit`
        // needs no more.
        let raw =
            unsafe { slice::from_raw_parts_mut(start.cast::<MaybeUninit<T>>().as_ptr(), len) };
        raw.fill(MaybeUninit::new(fill));
        // SAFETY: `raw.fill` initialised every element, and `raw` is not used after it.
        let elements = unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) };
        carry(self, elements);
        self.release();
        (self.start, self.len) = (start, len);
        Ok(())
    }

    /// Returns the memory and leaves the block empty.
    fn release(&mut self) {
        let Ok(layout) = Layout::array::<T>(self.len) else { return };
        if layout.size() != 0 {
            self.len = 0;
            // SAFETY: a non-empty block holds memory that `replace` got from this `memory` for this
            // layout. With `len` at zero, nothing reads that memory any more.
            unsafe { self.memory.release(self.start.cast(), layout) };
        }
        self.start = NonNull::dangling();
    }
}

impl<T: Copy, M: Memory> Deref for OwnedSlice<T, M> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` is valid for `len` initialised elements (see the field), borrowed with
        // `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy, M: Memory> DerefMut for OwnedSlice<T, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `start` is valid for `len` initialised elements, and `&mut self` makes the borrow
        // exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy, M: Memory> Drop for OwnedSlice<T, M> {
    fn drop(&mut self) {
        self.release();
    }
}
