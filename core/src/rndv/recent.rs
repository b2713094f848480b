//! A bounded table of envelopes that evicts the least recently used ones.
//!
//! It is set-associative, like a processor cache. An envelope belongs to one set and replaces the
//! least recently used entry there, so every operation examines [`WAYS`] entries.
//!
//! The table allocates nothing until the first envelope, and little then: a program that sends one
//! large message would wait for the memory of all entries. It grows when a set is full.

use core::fmt;
use core::ops::Range;

use crate::matching::fold;
use crate::memory::{Memory, OutOfMemory, OwnedSlice};
use crate::wire::Key;

/// Number of entries in a set.
const WAYS: usize = 4;

/// Number of entries of the first allocation, and factor by which the table grows.
const FIRST: usize = 16;
const GROWTH: usize = 4;

/// An entry of the table.
#[derive(Clone, Copy)]
struct RecentEntry<T> {
    peer: u32,
    key: Key,
    /// The clock value of its last use.
    seen: u32,
    /// `None` means vacant.
    value: Option<T>,
}

/// Values for a bounded number of envelopes.
pub(super) struct Recent<T: Copy, M: Memory> {
    places: OwnedSlice<RecentEntry<T>, M>,
    capacity: usize,
    /// Number of uses so far.
    clock: u32,
}

impl<T: Copy, M: Memory> Recent<T, M> {
    /// Creates an empty table for `capacity` envelopes, a power of two.
    pub(super) const fn new(memory: M, capacity: usize) -> Self {
        Self { places: OwnedSlice::new(memory), capacity, clock: 0 }
    }

    pub(super) fn get(&self, peer: u32, key: Key) -> Option<&T> {
        let set = self.places.get(self.set(peer, key))?;
        set.iter().find(|place| place.is_of(peer, key))?.value.as_ref()
    }

    pub(super) fn get_mut(&mut self, peer: u32, key: Key) -> Option<&mut T> {
        let set = self.set(peer, key);
        let set = self.places.get_mut(set)?;
        set.iter_mut().find(|place| place.is_of(peer, key))?.value.as_mut()
    }

    /// Marks the envelope as just used.
    pub(super) fn touch(&mut self, peer: u32, key: Key) {
        self.clock = self.clock.wrapping_add(1);
        let (seen, set) = (self.clock, self.set(peer, key));
        let Some(set) = self.places.get_mut(set) else { return };
        if let Some(place) = set.iter_mut().find(|place| place.is_of(peer, key)) {
            place.seen = seen;
        }
    }

    /// Inserts an envelope that is not in the table, and returns the value evicted for it.
    pub(super) fn insert(
        &mut self,
        peer: u32,
        key: Key,
        value: T,
    ) -> Result<Option<T>, OutOfMemory> {
        if self.places.is_empty() {
            self.resize(FIRST.min(self.capacity))?;
        }
        while self.places.len() < self.capacity && self.is_full(peer, key) {
            // Without memory the table stays as long as it is.
            if self.resize(self.capacity.min(self.places.len() * GROWTH)).is_err() {
                break;
            }
        }
        self.clock = self.clock.wrapping_add(1);
        let (seen, set) = (self.clock, self.set(peer, key));
        let set = self.places.get_mut(set).unwrap_or_default();
        let age = |place: &&mut RecentEntry<T>| match place.value {
            Some(_) => seen.wrapping_sub(place.seen),
            None => u32::MAX,
        };
        let Some(oldest) = set.iter_mut().max_by_key(age) else { return Ok(None) };
        let gone = oldest.value;
        *oldest = RecentEntry { peer, key, seen, value: Some(value) };
        Ok(gone)
    }

    /// Returns whether the set of the envelope has no vacant entry.
    fn is_full(&self, peer: u32, key: Key) -> bool {
        let set = self.places.get(self.set(peer, key));
        set.is_some_and(|set| set.iter().all(|place| place.value.is_some()))
    }

    /// Makes the table `length` entries long. Each old set has as much room in the new ones.
    fn resize(&mut self, length: usize) -> Result<(), OutOfMemory> {
        let vacant = RecentEntry { peer: 0, key: Key(0), seen: 0, value: None };
        self.places.replace(length, vacant, |old, new| {
            for entry in old.iter().filter(|entry| entry.value.is_some()) {
                let set = &mut new[set_of(length, entry.peer, entry.key)];
                if let Some(place) = set.iter_mut().find(|place| place.value.is_none()) {
                    *place = *entry;
                }
            }
        })
    }

    pub(super) fn remove(&mut self, peer: u32, key: Key) -> Option<T> {
        let set = self.set(peer, key);
        let set = self.places.get_mut(set)?;
        set.iter_mut().find(|place| place.is_of(peer, key))?.value.take()
    }

    /// Removes every envelope of `peer`, and passes each removed value to `gone`.
    pub(super) fn forget(&mut self, peer: u32, mut gone: impl FnMut(T)) {
        let of_peer = self.places.iter_mut().filter(|place| place.peer == peer);
        of_peer.filter_map(|place| place.value.take()).for_each(&mut gone);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Key, &T)> {
        let values = self.places.iter().map(|place| (place, place.value.as_ref()));
        values.filter_map(|(place, value)| Some((place.peer, place.key, value?)))
    }

    /// Returns the indices of the entries that may hold the envelope.
    fn set(&self, peer: u32, key: Key) -> Range<usize> {
        set_of(self.places.len(), peer, key)
    }
}

/// Returns the indices of the entries that may hold the envelope in a table of this length, a power
/// of two. The mask yields the first entry of a set. A longer table divides sets, and merges none.
fn set_of(length: usize, peer: u32, key: Key) -> Range<usize> {
    let ways = WAYS.min(length);
    let hash = fold(key.0 ^ 0x2437_54a3_243f_6a89, u64::from(peer) ^ 0xa409_3822_299f_31d1);
    let first = hash as usize & (length - ways);
    first..first + ways
}

impl<T> RecentEntry<T> {
    fn is_of(&self, peer: u32, key: Key) -> bool {
        self.key == key && self.peer == peer && self.value.is_some()
    }
}

impl<T: Copy + fmt::Debug, M: Memory> fmt::Debug for Recent<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn an_envelope_is_found_until_its_place_is_needed() {
        Counted::lend(|memory| {
            let mut recent = Recent::new(memory.clone(), 16);
            assert_eq!((recent.get(0, Key(0)), memory.asked()), (None, 0));
            let mut present = Vec::new();
            for (peer, number) in (0..100).map(|number| (number % 7, number)) {
                let key = Key(u64::from(number));
                let gone = recent.insert(peer, key, number).unwrap();
                present.retain(|&(_, _, number)| Some(number) != gone);
                present.push((peer, key, number));
                for (peer, key, number) in &present {
                    assert_eq!(recent.get(*peer, *key), Some(number));
                    assert_eq!(recent.get_mut(*peer + 7, *key), None);
                }
                assert_eq!(recent.iter().count(), present.len());
            }
            assert!((8..=16).contains(&present.len()));
            assert_eq!(memory.asked(), 1);
        });
    }

    #[test]
    fn the_table_grows_and_keeps_what_it_has() {
        Counted::lend(|memory| {
            let mut recent = Recent::new(memory.clone(), 1024);
            for number in 0..100_u64 {
                let gone = recent.insert(number as u32 % 3, Key(number), number).unwrap();
                assert_eq!(gone, None, "a set was full before the table was as long as it may be");
                let present =
                    (0..=number).all(|old| recent.get(old as u32 % 3, Key(old)).is_some());
                assert!(present, "{number}");
            }
            assert!((2..=4).contains(&memory.asked()));
        });
    }

    #[test]
    fn what_is_in_use_stays() {
        Counted::lend(|memory| {
            let mut recent = Recent::new(memory, 16);
            recent.insert(1, Key(7), ()).unwrap();
            for number in 100..200 {
                recent.touch(1, Key(7));
                recent.insert(2, Key(number), ()).unwrap();
            }
            assert!(recent.get(1, Key(7)).is_some());
            assert!(recent.get(2, Key(100)).is_none());
        });
    }

    #[test]
    fn what_is_removed_is_handed_out_once() {
        Counted::lend(|memory| {
            let mut recent = Recent::new(memory, 1);
            assert_eq!(recent.insert(1, Key(7), 'a'), Ok(None));
            assert_eq!(recent.insert(2, Key(7), 'b'), Ok(Some('a')));
            assert_eq!((recent.remove(1, Key(7)), recent.remove(2, Key(7))), (None, Some('b')));
            recent.insert(3, Key(7), 'c').unwrap();
            let mut gone = Vec::new();
            recent.forget(2, |value| gone.push(value));
            recent.forget(3, |value| gone.push(value));
            recent.forget(3, |value| gone.push(value));
            assert_eq!(gone, ['c']);
        });
    }
}
