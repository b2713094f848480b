//! One contiguous run of plain values that is replaced when it grows.
//!
//! All unsafe code of the private data structures is here: [`Slab`](super::Slab) and the matching bins see a slice.
//! Every element is initialised from the moment the block exists.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use super::{Memory, OutOfMemory};

/// A slice that owns its memory. Starts empty and without an allocation.
pub(crate) struct Block<T: Copy, M: Memory> {
    /// Dangling while `len` is zero; else from `memory`, for `[T; len]`, every element initialised.
    start: NonNull<T>,
    len: usize,
    memory: M,
}

// SAFETY: a block is the only owner of its elements, as a `Box<[T]>` is; nothing is shared behind its back.
unsafe impl<T: Copy + Send, M: Memory + Send> Send for Block<T, M> {}
// SAFETY: a shared block gives out shared slices alone.
unsafe impl<T: Copy + Sync, M: Memory + Sync> Sync for Block<T, M> {}

impl<T: Copy, M: Memory> Block<T, M> {
    /// No elements, no memory.
    pub(crate) const fn new(memory: M) -> Self {
        Self { start: NonNull::dangling(), len: 0, memory }
    }

    /// Replaces the elements by `len` copies of `fill`, then lets `carry` move what it wants to keep from the old
    /// ones (first argument) to the new ones. When there is no memory the block stays as it was.
    pub(crate) fn replace(
        &mut self,
        len: usize,
        fill: T,
        carry: impl FnOnce(&[T], &mut [T]),
    ) -> Result<(), OutOfMemory> {
        const { assert!(size_of::<T>() != 0, "no memory is asked for elements without a size") };
        let bytes = len.saturating_mul(size_of::<T>());
        let layout = Layout::array::<T>(len).map_err(|_| OutOfMemory { bytes })?;
        if bytes == 0 {
            self.release();
            return Ok(());
        }
        let start = self.memory.allocate(layout).ok_or(OutOfMemory { bytes })?.cast::<T>();
        // SAFETY: `allocate` gave us, alone, `len` elements' worth of aligned memory; `MaybeUninit` asks no more.
        let raw =
            unsafe { slice::from_raw_parts_mut(start.cast::<MaybeUninit<T>>().as_ptr(), len) };
        raw.fill(MaybeUninit::new(fill));
        // SAFETY: the line above initialised every element, and `raw` is not used after it.
        let elements = unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) };
        carry(self, elements);
        self.release();
        (self.start, self.len) = (start, len);
        Ok(())
    }

    /// Gives the memory back and leaves the block empty.
    fn release(&mut self) {
        let Ok(layout) = Layout::array::<T>(self.len) else { return };
        if layout.size() != 0 {
            self.len = 0;
            // SAFETY: a block with elements holds memory that `replace` got from this `memory` for this layout, and
            // with `len` at zero nothing reads it any more.
            unsafe { self.memory.release(self.start.cast(), layout) };
        }
        self.start = NonNull::dangling();
    }
}

impl<T: Copy, M: Memory> Deref for Block<T, M> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` is valid for `len` initialised elements (see the field), borrowed with `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy, M: Memory> DerefMut for Block<T, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` makes the borrow the only one.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy, M: Memory> Drop for Block<T, M> {
    fn drop(&mut self) {
        self.release();
    }
}
