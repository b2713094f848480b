//! Entries with small integer keys and stable addresses.
//!
//! A [`Slab`] of pointers: each entry has memory of its own, so a device may use one entry while
//! others are inserted and removed. Absent on purpose: a limit on the number of entries.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use super::{Memory, OutOfMemory, Slab};

/// A pool of entries with stable addresses. Keys are those of [`Slab`].
pub struct Pinned<T: Copy, M: Memory> {
    /// Pointers to initialised entries in memory from `memory`, which the pool owns.
    places: Slab<NonNull<T>, M>,
    memory: M,
}

// SAFETY: the pool is the only owner of its entries, as a list of boxes is.
unsafe impl<T: Copy + Send, M: Memory + Send> Send for Pinned<T, M> {}

impl<T: Copy, M: Memory + Clone> Pinned<T, M> {
    /// Creates an empty pool. Allocates nothing until the first entry.
    pub fn new(memory: M) -> Self {
        Self { places: Slab::new(memory.clone()), memory }
    }
}

impl<T: Copy, M: Memory> Pinned<T, M> {
    const LAYOUT: Layout = Layout::new::<T>();

    /// Returns true if there is no entry.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Stores `value` and returns its key.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was changed.
    pub fn insert(&mut self, value: T) -> Result<u32, OutOfMemory> {
        const { assert!(size_of::<T>() != 0, "zero-sized entries need no memory") };
        self.places.reserve()?;
        let place = self.memory.allocate(Self::LAYOUT);
        let place = place.ok_or(OutOfMemory { bytes: size_of::<T>() })?.cast::<T>();
        // SAFETY: `allocate` returned exclusive, aligned memory for one `T`.
        unsafe { place.write(value) };
        self.places.insert(place)
    }

    /// Returns the entry at `key`, or `None` if there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u32) -> Option<&T> {
        // SAFETY: the pool owns the entry, which is initialised (see the field) and borrowed with
        // `self`.
        self.places.get(key).map(|place| unsafe { place.as_ref() })
    }

    /// Returns the entry at `key` for modification, or `None` if there is none.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        // SAFETY: the pool owns the initialised entry, and `&mut self` makes the borrow exclusive.
        self.places.get_mut(key).map(|place| unsafe { place.as_mut() })
    }

    /// Removes the entry at `key`, releases its memory and returns it, or returns `None` if there
    /// is none.
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let place = self.places.remove(key)?;
        // SAFETY: the pool owns the initialised entry, and its key is no longer valid.
        let value = unsafe { place.read() };
        // SAFETY: the memory came from `allocate` with this layout, and no pointer to it is left.
        unsafe { self.memory.release(place.cast(), Self::LAYOUT) };
        Some(value)
    }

    /// Returns the entries in ascending order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// Returns the entries with keys of at least `first`, in ascending order of their keys.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        // SAFETY: the pool owns the entry, which is initialised (see the field) and borrowed with
        // `self`.
        self.places.iter_from(first).map(|(key, place)| (key, unsafe { place.as_ref() }))
    }
}

impl<T: Copy, M: Memory> Drop for Pinned<T, M> {
    fn drop(&mut self) {
        let mut from = 0;
        while let Some((key, _)) = self.places.next_from(from) {
            self.remove(key);
            from = key + 1;
        }
    }
}

impl<T: Copy + fmt::Debug, M: Memory> fmt::Debug for Pinned<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn entries_stay_where_they_are_while_others_come_and_go() {
        Counted::lend(|memory| {
            let mut pool = Pinned::new(memory);
            let first = pool.insert(0_u64).unwrap();
            let place = NonNull::from(pool.get(first).unwrap());
            let keys: Vec<_> = (1..100).map(|value| pool.insert(value).unwrap()).collect();
            assert_eq!(NonNull::from(pool.get(first).unwrap()), place);
            for (value, key) in (1..).zip(keys) {
                assert_eq!(pool.remove(key), Some(value));
                assert_eq!(pool.get(key), None);
            }
            *pool.get_mut(first).unwrap() += 7;
            assert_eq!(pool.iter().collect::<Vec<_>>(), [(first, &7)]);
        });
    }

    #[test]
    fn without_memory_nothing_changes() {
        Counted::lend(|memory| {
            let mut pool = Pinned::new(memory.clone());
            memory.refuse(true);
            assert!(pool.insert(0_u32).is_err() && pool.is_empty());
            memory.refuse(false);
            assert_eq!(pool.insert(5), Ok(0));
        });
    }
}
