//! A slice in lent memory that can be extended.

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
    /// Creates a table without values, which has no memory.
    pub const fn empty(memory: M) -> Self {
        Self { first: NonNull::dangling(), length: 0, memory }
    }

    /// Creates a table of `length` values. `make` creates each value from its index.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: `make` was not called.
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
            // SAFETY: `allocate` returned exclusive memory for `length` values of `T`, aligned for
            // them.
            unsafe { first.add(index).write(make(index)) };
        }
        Ok(Self { first, length, memory })
    }

    /// Extends the table to `length` values. `make` creates each new value from its index. A table
    /// with that many values or more stays unchanged.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was changed.
    pub fn extend(
        &mut self,
        length: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<(), OutOfMemory> {
        let bytes = length.saturating_mul(size_of::<T>());
        let layout = Layout::array::<T>(length).map_err(|_| OutOfMemory { bytes })?;
        if layout.size() == 0 || length <= self.length {
            return Ok(());
        }
        let first = self.memory.allocate(layout).ok_or(OutOfMemory { bytes })?.cast::<T>();
        for index in self.length..length {
            // SAFETY: `allocate` returned exclusive memory for `length` values of `T`, aligned for
            // them.
            unsafe { first.add(index).write(make(index)) };
        }
        // SAFETY: both regions hold at least `self.length` values and do not overlap. The values
        // move: the old memory is released below without dropping them.
        unsafe { first.copy_from_nonoverlapping(self.first, self.length) };
        let (old, old_length) = (self.first, self.length);
        (self.first, self.length) = (first, length);
        // SAFETY: the memory came from `allocate` with this layout, which was valid then.
        unsafe {
            let layout = Layout::array::<T>(old_length).unwrap_unchecked();
            if layout.size() != 0 {
                self.memory.release(old.cast(), layout);
            }
        }
        Ok(())
    }
}

impl<T, M: Memory> Deref for Table<T, M> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` and `extend` wrote `length` values there, which the table owns.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

impl<T, M: Memory> DerefMut for Table<T, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the table owns `length` initialised values there; `&mut self` makes the access
        // exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.length) }
    }
}

impl<T, M: Memory> Drop for Table<T, M> {
    fn drop(&mut self) {
        // SAFETY: this is the only place that drops the values. The memory is released with the
        // layout of its allocation, which was valid then.
        unsafe {
            core::ptr::drop_in_place::<[T]>(&mut **self);
            let layout = Layout::array::<T>(self.length).unwrap_unchecked();
            if layout.size() != 0 {
                self.memory.release(self.first.cast(), layout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};

    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn values_move_to_a_longer_table_and_are_dropped_once() {
        Counted::lend(|memory| {
            let mut table = Table::new(memory, 2, |index| index.to_string()).unwrap();
            table.extend(5, |index| index.to_string()).unwrap();
            table.extend(3, |_| String::from("none is made")).unwrap();
            assert_eq!(*table, ["0", "1", "2", "3", "4"]);
        });
    }

    #[test]
    fn without_memory_a_table_stays_as_it_was() {
        Counted::lend(|memory| {
            let mut table = Table::new(memory.clone(), 0, |_| 0_u8).unwrap();
            memory.refuse(true);
            assert_eq!(table.extend(4, |_| 7), Err(OutOfMemory { bytes: 4 }));
            memory.refuse(false);
            table.extend(4, |_| 7).unwrap();
            assert_eq!(*table, [7; 4]);
        });
    }
}
