//! Entries behind small integer keys that stay where they are in memory.
//!
//! A [`Slab`] of pointers: each entry has memory of its own, so a device may work on an entry while
//! others come and go. Absent on purpose: a limit on the number of entries.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use super::{Memory, OutOfMemory, Slab};

/// A pool of entries with stable addresses. Keys are those of [`Slab`].
pub struct Pinned<T: Copy, M: Memory> {
    /// Each pointer is to an initialised entry in memory from `memory`, which the pool owns.
    places: Slab<NonNull<T>, M>,
    memory: M,
}

// SAFETY: the pool is the only owner of its entries, as a list of boxes is.
unsafe impl<T: Copy + Send, M: Memory + Send> Send for Pinned<T, M> {}

impl<T: Copy, M: Memory + Clone> Pinned<T, M> {
    /// An empty pool. Allocates nothing until the first entry.
    pub fn new(memory: M) -> Self {
        Self { places: Slab::new(memory.clone()), memory }
    }
}

impl<T: Copy, M: Memory> Pinned<T, M> {
    const LAYOUT: Layout = Layout::new::<T>();

    /// Whether there is no entry.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Stores `value` and returns its key.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]. Nothing was changed.
    pub fn insert(&mut self, value: T) -> Result<u32, OutOfMemory> {
        const { assert!(size_of::<T>() != 0, "no memory is asked for entries without a size") };
        self.places.reserve()?;
        let place = self.memory.allocate(Self::LAYOUT);
        let place = place.ok_or(OutOfMemory { bytes: size_of::<T>() })?.cast::<T>();
        // SAFETY: `allocate` gave aligned memory for one `T`, to us alone.
        unsafe { place.write(value) };
        self.places.insert(place)
    }

    /// The entry at `key`; `None` where there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u32) -> Option<&T> {
        // SAFETY: the entry is initialised and the pool's (see the field), borrowed with `self`.
        self.places.get(key).map(|place| unsafe { place.as_ref() })
    }

    /// The entry at `key`, to change; `None` where there is none.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        // SAFETY: as in `get`; `&mut self` makes the borrow the only one.
        self.places.get_mut(key).map(|place| unsafe { place.as_mut() })
    }

    /// Takes the entry at `key` out and releases its memory; `None` where there is none.
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let place = self.places.remove(key)?;
        // SAFETY: the entry is initialised and the pool's, and its key ended with the line above.
        let value = unsafe { place.read() };
        // SAFETY: the memory came from `allocate` with this layout, and nothing points there any more.
        unsafe { self.memory.release(place.cast(), Self::LAYOUT) };
        Some(value)
    }

    /// The entries by ascending key.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// The entries whose key is at least `first`, by ascending key.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        // SAFETY: as in `get`.
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
