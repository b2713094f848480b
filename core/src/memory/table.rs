//! A slice of fixed length in lent memory.

use core::alloc::Layout;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::{Memory, OutOfMemory};

/// `length` values that live as long as the table.
#[derive(Debug)]
pub struct Table<T, M: Memory> {
    first: NonNull<T>,
    length: usize,
    memory: M,
}

// SAFETY: the table owns its values, as a boxed slice does.
unsafe impl<T: Send, M: Memory + Send> Send for Table<T, M> {}

impl<T, M: Memory> Table<T, M> {
    /// A table of `length` values, each made by `make` from its index.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]. `make` was not called.
    pub fn new(
        memory: M,
        length: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<Self, OutOfMemory> {
        let bytes = length.saturating_mul(size_of::<T>());
        let layout = Layout::array::<T>(length).map_err(|_| OutOfMemory { bytes })?;
        let first = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            memory.allocate(layout).ok_or(OutOfMemory { bytes })?.cast::<T>()
        };
        for index in 0..length {
            // SAFETY: `allocate` gave memory for `length` values of `T`, aligned for them, to us alone.
            unsafe { first.add(index).write(make(index)) };
        }
        Ok(Self { first, length, memory })
    }
}

impl<T, M: Memory> Deref for Table<T, M> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` wrote `length` values there, which the table owns.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

impl<T, M: Memory> DerefMut for Table<T, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.length) }
    }
}

impl<T, M: Memory> Drop for Table<T, M> {
    fn drop(&mut self) {
        // SAFETY: the values are dropped once, here, and the memory goes back with the layout it came with, which
        // was valid in `new`.
        unsafe {
            core::ptr::drop_in_place::<[T]>(&mut **self);
            let layout = Layout::array::<T>(self.length).unwrap_unchecked();
            if layout.size() != 0 {
                self.memory.release(self.first.cast(), layout);
            }
        }
    }
}
