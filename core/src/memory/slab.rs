//! Entries behind small integer keys.
//!
//! Constant time for everything but iteration (insertion: amortised). A key is valid until its entry is removed; a
//! later entry may then get the same key. Keys carry no generation: whoever hands them out owns them.
//! Absent on purpose: shrinking, stable addresses (entries are plain data and move when the slab grows; [`super::Pinned`]
//! keeps them in place).

use core::fmt;

use super::{Block, Memory, OutOfMemory};

/// The end of the free list. Never a key: the slab has fewer slots.
const NIL: u32 = u32::MAX;

/// Slots of the first allocation.
const FIRST_SLOTS: usize = 4;

#[derive(Clone, Copy)]
enum Slot<T> {
    Vacant { next: u32 },
    Occupied(T),
}

/// A contiguous pool of entries. The last key given back is the next one used, so that a slab of few entries stays
/// in the cache.
pub struct Slab<T: Copy, M: Memory> {
    slots: Block<Slot<T>, M>,
    /// First vacant slot; the vacant slots form a list that ends with [`NIL`].
    free: u32,
    len: u32,
}

impl<T: Copy, M: Memory> Slab<T, M> {
    /// An empty slab. Allocates nothing until the first entry.
    pub const fn new(memory: M) -> Self {
        Self { slots: Block::new(memory), free: NIL, len: 0 }
    }

    /// The number of entries.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no entry.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `value` and returns its key.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: all slots are taken and there is no memory for twice as many. Nothing was changed.
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<u32, OutOfMemory> {
        if self.free == NIL {
            self.grow()?;
        }
        let key = self.free;
        let slot = &mut self.slots[key as usize];
        if let Slot::Vacant { next } = *slot {
            self.free = next;
        }
        *slot = Slot::Occupied(value);
        self.len += 1;
        Ok(key)
    }

    /// Makes sure that the next [`Slab::insert`] does not fail.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]. Nothing was changed.
    #[inline]
    pub fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.free == NIL { self.grow() } else { Ok(()) }
    }

    /// The entry at `key`; `None` where there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u32) -> Option<&T> {
        match self.slots.get(key as usize)? {
            Slot::Occupied(value) => Some(value),
            Slot::Vacant { .. } => None,
        }
    }

    /// The entry at `key`, to change; `None` where there is none.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        match self.slots.get_mut(key as usize)? {
            Slot::Occupied(value) => Some(value),
            Slot::Vacant { .. } => None,
        }
    }

    /// Takes the entry at `key` out; `None` where there is none.
    #[inline]
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let slot = self.slots.get_mut(key as usize)?;
        let Slot::Occupied(value) = *slot else { return None };
        *slot = Slot::Vacant { next: self.free };
        self.free = key;
        self.len -= 1;
        Some(value)
    }

    /// A copy of the first entry whose key is at least `first`: for a walk that changes the slab on its way.
    #[must_use]
    pub fn next_from(&self, first: u32) -> Option<(u32, T)> {
        self.iter_from(first).next().map(|(key, entry)| (key, *entry))
    }

    /// The entries by ascending key.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// The entries whose key is at least `first`, by ascending key.
    ///
    /// With it a walk can go on after a change to the slab, from the key after the last one it saw.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.slots.get(first as usize..).unwrap_or_default();
        slots.iter().zip(first..).filter_map(|(slot, key)| match slot {
            Slot::Occupied(value) => Some((key, value)),
            Slot::Vacant { .. } => None,
        })
    }

    /// Doubles the slots.
    #[cold]
    fn grow(&mut self) -> Result<(), OutOfMemory> {
        self.grow_to((self.slots.len() * 2).max(FIRST_SLOTS))
    }

    /// Makes it `len` slots, which are more. The new ones are the first on the free list, lowest key first.
    fn grow_to(&mut self, len: usize) -> Result<(), OutOfMemory> {
        let (old_len, free) = (self.slots.len(), self.free);
        let Ok(last) = u32::try_from(len - 1) else {
            return Err(OutOfMemory { bytes: len.saturating_mul(size_of::<Slot<T>>()) });
        };
        self.slots.replace(len, Slot::Vacant { next: free }, |old, new| {
            let (kept, added) = new.split_at_mut(old.len());
            kept.copy_from_slice(old);
            for (slot, next) in added.iter_mut().zip(old.len() as u32 + 1..=last) {
                *slot = Slot::Vacant { next };
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
            assert_eq!(slab.get(b), None);
            assert_eq!(slab.get_mut(b), None);
            assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &'a'), (c, &'c')]);
            assert_eq!(slab.iter_from(a + 1).collect::<Vec<_>>(), [(c, &'c')]);
            assert_eq!(slab.insert('d'), Ok(b));
            *slab.get_mut(c).unwrap() = 'e';
            assert_eq!(slab.iter().map(|(_, v)| *v).collect::<Vec<_>>(), ['a', 'd', 'e']);
        });
    }

    #[test]
    fn keys_that_never_were_find_nothing() {
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
