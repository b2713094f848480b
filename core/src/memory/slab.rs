//! Entries with small integer keys.
//!
//! Every operation but iteration takes constant time (insertion: amortised). A key is valid until
//! its entry is removed; a later entry may then get the same key. Keys carry no generation, so the
//! code that hands out a key must track its validity.
//!
//! Absent on purpose: shrinking, and stable addresses. Entries are plain data and move when the
//! slab grows; [`super::Pinned`] keeps them in place.

use core::fmt;

use super::{Memory, OutOfMemory, OwnedSlice};

/// The end of the free list. It is never a key, because the slab has fewer slots.
const NIL: u32 = u32::MAX;

/// Number of slots in the first allocation.
const FIRST_SLOTS: usize = 4;

#[derive(Clone, Copy)]
enum SlabSlot<T> {
    Vacant { next: u32 },
    Occupied(T),
}

/// A contiguous pool of entries. The key released last is reused first, so a slab with few entries
/// stays in the cache.
///
/// ```
/// use strait_core::memory::Slab;
///
/// # let mut bytes = [core::mem::MaybeUninit::uninit(); 16384];
/// # let memory = strait_core::memory::BumpMemory::new(&mut bytes);
/// let mut slab = Slab::new(&memory);
/// let key = slab.insert("a request")?;
/// assert_eq!(slab.get(key), Some(&"a request"));
/// assert_eq!(slab.remove(key), Some("a request"));
/// assert_eq!(slab.insert("the next one")?, key, "the key is used again");
/// # Ok::<(), strait_core::memory::OutOfMemory>(())
/// ```
pub struct Slab<T: Copy, M: Memory> {
    slots: OwnedSlice<SlabSlot<T>, M>,
    /// The first vacant slot. The vacant slots form a list that ends with [`NIL`].
    free: u32,
    len: u32,
}

impl<T: Copy, M: Memory> Slab<T, M> {
    /// Creates an empty slab. Allocates nothing until the first entry.
    pub const fn new(memory: M) -> Self {
        Self { slots: OwnedSlice::new(memory), free: NIL, len: 0 }
    }

    /// Returns the number of entries.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if there is no entry.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `value` and returns its key.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: all slots are in use and there is no memory for twice as many. Nothing was
    /// changed.
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<u32, OutOfMemory> {
        self.reserve()?;
        let bytes = size_of::<SlabSlot<T>>();
        self.insert_in_free(value).ok_or(OutOfMemory { bytes })
    }

    /// Ensures that the next [`Slab::insert`] does not fail.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was changed.
    #[inline]
    pub fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.free == NIL { self.grow() } else { Ok(()) }
    }

    /// Returns the key that the next [`Slab::insert`] returns. That insert does not fail.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]. Nothing was changed.
    #[inline]
    pub fn next_key(&mut self) -> Result<u32, OutOfMemory> {
        self.reserve()?;
        Ok(self.free)
    }

    /// Stores `value` and returns its key, if that needs no memory.
    #[inline(always)]
    pub fn insert_in_free(&mut self, value: T) -> Option<u32> {
        let key = self.free;
        // The end of the free list is no key.
        let slot = self.slots.get_mut(key as usize)?;
        if let SlabSlot::Vacant { next } = *slot {
            self.free = next;
        }
        *slot = SlabSlot::Occupied(value);
        self.len += 1;
        Some(key)
    }

    /// Returns the entry at `key`, or `None` if there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u32) -> Option<&T> {
        match self.slots.get(key as usize)? {
            SlabSlot::Occupied(value) => Some(value),
            SlabSlot::Vacant { .. } => None,
        }
    }

    /// Returns the entry at `key` for modification, or `None` if there is none.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        match self.slots.get_mut(key as usize)? {
            SlabSlot::Occupied(value) => Some(value),
            SlabSlot::Vacant { .. } => None,
        }
    }

    /// Removes and returns the entry at `key`, or returns `None` if there is none.
    #[inline]
    pub fn remove(&mut self, key: u32) -> Option<T> {
        self.discard_if(key, |value| Some(*value))
    }

    /// Drops the entry at `key`, if there is one. Cheaper than [`Slab::remove`]: the entry is not
    /// copied.
    #[inline]
    pub fn discard(&mut self, key: u32) {
        self.discard_if(key, |_| Some(()));
    }

    /// Drops the entry at `key` if `accept` returns a value for it. Returns that value.
    #[inline(always)]
    pub fn discard_if<R>(&mut self, key: u32, accept: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        let slot = self.slots.get_mut(key as usize)?;
        let SlabSlot::Occupied(value) = slot else { return None };
        let accepted = accept(value)?;
        *slot = SlabSlot::Vacant { next: self.free };
        self.free = key;
        self.len -= 1;
        Some(accepted)
    }

    /// Returns a copy of the first entry with a key of at least `first`. A loop that changes the
    /// slab uses it to continue.
    #[must_use]
    pub fn next_from(&self, first: u32) -> Option<(u32, T)> {
        self.iter_from(first).next().map(|(key, entry)| (key, *entry))
    }

    /// Returns the entries in ascending order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// Returns the entries with keys of at least `first`, in ascending order of their keys.
    ///
    /// After a change to the slab, an iteration continues with it from the key after the last one
    /// seen.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.slots.get(first as usize..).unwrap_or_default();
        slots.iter().zip(first..).filter_map(|(slot, key)| match slot {
            SlabSlot::Occupied(value) => Some((key, value)),
            SlabSlot::Vacant { .. } => None,
        })
    }

    /// Doubles the slots.
    #[cold]
    fn grow(&mut self) -> Result<(), OutOfMemory> {
        self.grow_to((self.slots.len() * 2).max(FIRST_SLOTS))
    }

    /// Grows the slab to `len` slots. The new slots become the head of the free list, lowest key
    /// first.
    fn grow_to(&mut self, len: usize) -> Result<(), OutOfMemory> {
        let (old_len, free) = (self.slots.len(), self.free);
        let Ok(last) = u32::try_from(len - 1) else {
            return Err(OutOfMemory { bytes: len.saturating_mul(size_of::<SlabSlot<T>>()) });
        };
        self.slots.replace(len, SlabSlot::Vacant { next: free }, |old, new| {
            let (kept, added) = new.split_at_mut(old.len());
            kept.copy_from_slice(old);
            for (slot, next) in added.iter_mut().zip(old.len() as u32 + 1..=last) {
                *slot = SlabSlot::Vacant { next };
            }
        })?;
        self.free = old_len as u32;
        Ok(())
    }
}

impl<T: Copy + fmt::Debug, M: Memory> fmt::Debug for Slab<T, M> {
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
    fn a_new_slab_asks_for_no_memory() {
        Counted::lend(|memory| {
            let slab = Slab::<u64, _>::new(memory.clone());
            assert!(slab.is_empty());
            assert_eq!(slab.get(0), None);
            assert_eq!(memory.asked(), 0);
        });
    }

    #[test]
    fn entries_keep_their_keys_while_the_slab_grows() {
        Counted::lend(|memory| {
            let mut slab = Slab::new(memory.clone());
            let keys: Vec<_> = (0..100_u64).map(|value| slab.insert(value).unwrap()).collect();
            assert_eq!(slab.len(), 100);
            for (value, &key) in (0..100).zip(&keys) {
                assert_eq!(slab.get(key), Some(&value));
            }
            assert_eq!(memory.asked(), 6, "4, 8, 16, 32, 64, 128 slots");
        });
    }

    #[test]
    fn a_removed_entry_is_gone_and_its_key_comes_back() {
        Counted::lend(|memory| {
            let mut slab = Slab::new(memory);
            let [a, b, c] = ['a', 'b', 'c'].map(|value| slab.insert(value).unwrap());
            assert_eq!(slab.remove(b), Some('b'));
            assert_eq!(slab.remove(b), None);
            slab.discard(b);
            assert_eq!(slab.len(), 2);
            assert_eq!(slab.get(b), None);
            assert_eq!(slab.get_mut(b), None);
            assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &'a'), (c, &'c')]);
            assert_eq!(slab.iter_from(a + 1).collect::<Vec<_>>(), [(c, &'c')]);
            assert_eq!(slab.next_key(), Ok(b));
            assert_eq!(slab.insert('d'), Ok(b));
            *slab.get_mut(c).unwrap() = 'e';
            assert_eq!(slab.iter().map(|(_, v)| *v).collect::<Vec<_>>(), ['a', 'd', 'e']);
            slab.discard(a);
            assert_eq!((slab.len(), slab.get(a)), (2, None));
            assert_eq!(slab.next_key(), Ok(a));
        });
    }

    #[test]
    fn unknown_keys_find_nothing() {
        Counted::lend(|memory| {
            let mut slab = Slab::new(memory);
            slab.insert(7_u8).unwrap();
            for key in [1, FIRST_SLOTS as u32, u32::MAX] {
                assert_eq!(slab.get(key), None);
                assert_eq!(slab.remove(key), None);
                assert_eq!(slab.iter_from(key).count(), 0);
            }
            assert_eq!(slab.len(), 1);
        });
    }

    #[test]
    fn without_memory_nothing_changes() {
        Counted::lend(|memory| {
            let mut slab = Slab::new(memory.clone());
            memory.refuse(true);
            assert_eq!(slab.insert(0_u32), Err(OutOfMemory { bytes: FIRST_SLOTS * 8 }));
            memory.refuse(false);
            for value in 0..FIRST_SLOTS as u32 {
                slab.insert(value).unwrap();
            }
            memory.refuse(true);
            assert_eq!(slab.insert(4), Err(OutOfMemory { bytes: 2 * FIRST_SLOTS * 8 }));
            assert!(slab.iter().map(|(_, value)| *value).eq(0..4));
            assert_eq!(slab.remove(2), Some(2));
            assert_eq!(slab.insert(5), Ok(2), "a free slot needs no memory");
        });
    }
}
