//! The memory that a member has attached to a dynamic window (MPI-4.1 §12.2.4).
//!
//! The member has a table of its attachments. The other members read it, by loads or through a
//! device, each time they access such memory.
//!
//! Each entry has a number. The owner raises it when it fills and when it empties the entry, so an
//! odd number means that the entry is in use. A displacement contains the entry and its number
//! beside the address. A stale displacement thus differs from a new one at the same address, until
//! the entry has been filled 16 more times. Entries are reused in turn, so that this takes long.
//!
//! A rank that reads an entry while its owner changes it uses memory that is being attached or
//! detached. MPI requires the program to synchronise first. The rank may then read a mixture of
//! both states, and parses it like all data that others wrote.

use super::Signal;
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// Largest number of simultaneous attachments of a member.
pub const ATTACHMENTS: usize = match () {
    () if cfg!(strait_loom) => 2,
    // Each call makes the interpreter visit all entries.
    () if cfg!(miri) => 100,
    () => 4095,
};

/// Number of entries that are reused in turn before entries behind them are used. Readers search
/// all entries that were ever used.
const IN_TURN: usize = if ATTACHMENTS < 64 { ATTACHMENTS } else { 64 };

/// Bits of an address: processors offer programs no more.
const ADDRESS: u32 = 48;

/// Bits of the entry in a tag; the remaining bits are those of the entry's number, without the
/// lowest.
const ENTRY: u32 = 12;

const _: () = assert!(ATTACHMENTS < 1 << ENTRY, "entries count from 1, so that no tag is zero");

/// The attachment that a displacement names, in the bits above the address. Zero names any
/// attachment that has the address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttachmentTag(u16);

impl AttachmentTag {
    /// Creates the tag of entry `entry` with this number.
    #[must_use]
    pub const fn new(entry: usize, number: u64) -> Self {
        Self(((number >> 1) as u16) << ENTRY | (entry as u16 + 1))
    }

    /// Returns the displacement of `address` under this tag.
    #[must_use]
    pub const fn displace(self, address: u64) -> u64 {
        (self.0 as u64) << ADDRESS | address
    }

    /// Returns the tag of a displacement, if it has one, and its address.
    #[must_use]
    pub const fn split(displacement: u64) -> (Option<Self>, u64) {
        let (tag, address) =
            ((displacement >> ADDRESS) as u16, displacement & ((1 << ADDRESS) - 1));
        (if tag == 0 { None } else { Some(Self(tag)) }, address)
    }

    /// Returns the entry of the tag. It may be past the end of a table.
    #[must_use]
    pub const fn entry(self) -> usize {
        ((self.0 & ((1 << ENTRY) - 1)) as usize).wrapping_sub(1)
    }

    const fn is_of(self, entry: usize, number: u64) -> bool {
        self.0 == Self::new(entry, number).0
    }
}

/// Attached memory, as described by its owner.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Attachment {
    /// Address in the owner's address space.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// Distance in bytes from the start of the owner's heap, or [`u64::MAX`] if the memory is not
    /// in the heap.
    pub place: u64,
    /// Remote key for devices.
    pub key: u64,
}

/// An entry of the table. Zeroed memory is the initial state.
#[derive(Debug, Default)]
#[repr(C)]
struct AttachmentEntry {
    number: Signal,
    words: [AtomicU64; 4],
}

/// The words of an entry, its number first, in the order in which a device reads them.
pub type AttachmentWords = [u64; 5];

#[cfg(not(strait_loom))]
const _: () = assert!(
    size_of::<AttachmentEntry>() == size_of::<AttachmentWords>(),
    "an entry has no padding"
);

/// The table of one member. Zeroed memory is the initial state.
#[derive(Debug)]
#[repr(C)]
pub struct AttachmentTable {
    /// Number of entries that have ever been used: others need not be read. A program synchronises
    /// an attachment with the accesses to it, so this word needs no ordering of its own.
    used: AtomicU64,
    /// The entry from which the owner looks for a free one.
    next: AtomicU64,
    /// Number of entries in use.
    filled: AtomicU64,
    entries: [AttachmentEntry; ATTACHMENTS],
}

impl Default for AttachmentTable {
    fn default() -> Self {
        let entries = core::array::from_fn(|_| AttachmentEntry::default());
        let [used, next, filled] = core::array::from_fn(|_| AtomicU64::default());
        Self { used, next, filled, entries }
    }
}

impl AttachmentTable {
    /// Offset in bytes of the first entry. Before it is the number of entries to read, in 8 bytes.
    pub const HEAD: usize = 3 * size_of::<u64>();

    /// Records an attachment in a free entry. Returns `None` if there is no free entry. Only the
    /// owner calls it.
    pub fn fill(&self, attachment: Attachment) -> Option<AttachmentTag> {
        let at = self.free_entry()?;
        let Attachment { address, length, place, key } = attachment;
        let entry = &self.entries[at];
        for (word, value) in entry.words.iter().zip([address, length, place, key]) {
            word.store(value, Relaxed);
        }
        let number = entry.number.number() + 1;
        entry.number.raise(number);
        self.used.store(self.used().max(at + 1) as u64, Relaxed);
        self.next.store(at as u64 + 1, Relaxed);
        self.filled.store(self.filled.load(Relaxed).wrapping_add(1), Relaxed);
        Some(AttachmentTag::new(at, number))
    }

    /// Returns a free entry: the next one in turn, or the first one behind if all these are in use.
    fn free_entry(&self) -> Option<usize> {
        let in_turn = self.used().max(IN_TURN);
        if self.filled.load(Relaxed) >= in_turn as u64 {
            return (in_turn < ATTACHMENTS).then_some(in_turn);
        }
        let next = self.next.load(Relaxed) as usize % in_turn;
        let mut all = (next..in_turn).chain(0..next);
        all.find(|at| self.entries[*at].number.number().is_multiple_of(2))
    }

    /// Returns the number of entries to read, whatever the word contains.
    fn used(&self) -> usize {
        entries_used(self.used.load(Relaxed))
    }

    /// Removes an attachment. Returns false if it was not attached. Only the owner calls it.
    pub fn empty(&self, tag: AttachmentTag) -> bool {
        let at = tag.entry();
        let found = self.entries.get(at).filter(|entry| tag.is_of(at, entry.number.number()));
        found.is_some_and(|entry| {
            entry.number.raise(entry.number.number() + 1);
            self.filled.store(self.filled.load(Relaxed).saturating_sub(1), Relaxed);
            true
        })
    }

    /// Returns the entries that may be in use, with their places, as a device would read them.
    pub fn words(&self) -> impl Iterator<Item = (usize, AttachmentWords)> + Clone {
        let entries = self.entries.iter().take(self.used()).enumerate();
        entries.map(|(at, entry)| {
            let number = entry.number.seen();
            let [address, length, place, key] =
                entry.words.each_ref().map(|word| word.load(Relaxed));
            (at, [number, address, length, place, key])
        })
    }
}

/// Returns the number of entries to read that a table's first word tells, whatever it contains.
#[must_use]
pub fn entries_used(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX).min(ATTACHMENTS)
}

/// Finds the attachment among `entries` that contains the `extent` bytes at a displacement. Returns
/// it and its tag, or `None` if there is no such attachment (any more).
pub fn find(
    entries: impl IntoIterator<Item = (usize, AttachmentWords)>,
    displacement: u64,
    extent: u64,
) -> Option<(Attachment, AttachmentTag)> {
    let (tag, wanted) = AttachmentTag::split(displacement);
    let mut entries = entries.into_iter();
    entries.find_map(|(at, [number, address, length, place, key])| {
        let end = wanted.checked_add(extent)?;
        let has =
            !number.is_multiple_of(2) && address <= wanted && end <= address.checked_add(length)?;
        let is_meant = tag.is_none_or(|tag| tag.is_of(at, number));
        let found = Attachment { address, length, place, key };
        (has && is_meant).then_some((found, AttachmentTag::new(at, number)))
    })
}

/// Finds the attachments that together contain the `extent` bytes at a displacement, without a gap
/// between them. Calls `each` with each of them in the order of their addresses. Returns whether
/// they contain all of the bytes.
pub fn find_run(
    entries: impl Iterator<Item = (usize, AttachmentWords)> + Clone,
    displacement: u64,
    extent: u64,
    mut each: impl FnMut(Attachment, AttachmentTag),
) -> bool {
    let Some(end) = AttachmentTag::split(displacement).1.checked_add(extent) else { return false };
    let mut named = displacement;
    loop {
        let Some((found, tag)) = find(entries.clone(), named, 1) else { return false };
        each(found, tag);
        let next = found.address + found.length;
        if next >= end {
            return true;
        }
        // No attachment of a sound table reaches beyond the addresses that a program may have.
        let (None, _) = AttachmentTag::split(next) else { return false };
        named = next;
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn at(address: u64, length: u64) -> Attachment {
        Attachment { address, length, place: u64::MAX, key: 7 }
    }

    #[test]
    fn an_attachment_is_found_by_any_of_its_addresses_until_it_is_detached() {
        let table = AttachmentTable::default();
        let found = |displacement, extent| find(table.words(), displacement, extent);
        assert_eq!(found(0, 0), None);
        let one = table.fill(at(0x1000, 64)).unwrap();
        let two = table.fill(at(0x2000, 8)).unwrap();
        assert_eq!(found(0x1000, 64), Some((at(0x1000, 64), one)));
        assert_eq!(found(one.displace(0x1010), 8), Some((at(0x1000, 64), one)));
        assert_eq!(found(one.displace(0x1010), 0x31), None, "past the end of the attachment");
        assert_eq!(found(two.displace(0x1010), 8), None, "address in another attachment");
        assert_eq!(found(0x2001, 7), Some((at(0x2000, 8), two)));
        assert!(table.empty(one) && !table.empty(one));
        assert_eq!(found(0x1000, 1), None);
        let three = table.fill(at(0x1000, 64)).unwrap();
        assert_eq!(found(one.displace(0x1000), 1), None, "stale tag at the same address");
        assert_eq!(found(three.displace(0x1000), 1), Some((at(0x1000, 64), three)));
        assert_eq!(found(u64::MAX, u64::MAX), None);
    }

    #[test]
    fn an_access_may_span_attachments_without_a_gap() {
        let table = AttachmentTable::default();
        let found = |displacement, extent| {
            let mut run = Vec::new();
            let each = |attachment: Attachment, tag| run.push((attachment.address, tag));
            find_run(table.words(), displacement, extent, each).then_some(run)
        };
        let second = table.fill(at(0x1040, 64)).unwrap();
        let first = table.fill(at(0x1000, 64)).unwrap();
        let third = table.fill(at(0x1080, 8)).unwrap();
        let run = [(0x1000, first), (0x1040, second), (0x1080, third)];
        assert_eq!(find(table.words(), 0x1000, 65), None);
        assert_eq!(found(0x1000, 64).as_deref(), Some(&run[..1]));
        assert_eq!(found(0x1010, 64).as_deref(), Some(&run[..2]));
        assert_eq!(found(first.displace(0x1010), 0x78).as_deref(), Some(&run[..]));
        assert_eq!(found(second.displace(0x1010), 0x78), None, "address in another attachment");
        assert_eq!(found(0x1000, 137), None, "past the end of the last");
        assert!(table.empty(third));
        let heap = table.fill(Attachment { place: 0x80, ..at(0x1080, 8) }).unwrap();
        assert_eq!(found(0x1040, 72), Some(vec![run[1], (0x1080, heap)]), "memory of both kinds");
        assert!(table.empty(second));
        assert_eq!(found(0x1010, 64), None, "a gap");
        let high = (1 << ADDRESS) - 64;
        table.fill(at(high, first.displace(0x1010) - high)).unwrap();
        assert_eq!(found(high, u64::MAX / 2), None, "past all addresses");
    }

    #[test]
    fn a_full_table_has_room_again_after_a_detach() {
        let table = AttachmentTable::default();
        let place = |entry: usize| entry as u64 * 16;
        let tags: Vec<_> =
            (0..ATTACHMENTS).map(|entry| table.fill(at(place(entry), 16)).unwrap()).collect();
        assert_eq!(table.fill(at(0, 1)), None);
        for (entry, tag) in tags.into_iter().enumerate() {
            assert_eq!(find(table.words(), place(entry), 16), Some((at(place(entry), 16), tag)));
            assert!(table.empty(tag));
            assert!(table.fill(at(place(entry), 8)).is_some());
        }
    }

    #[test]
    fn a_stale_tag_stays_unknown_while_memory_is_attached_many_times() {
        let table = AttachmentTable::default();
        let stale = table.fill(at(0x1000, 64)).unwrap();
        assert!(table.empty(stale));
        let times = if cfg!(miri) { 2 } else { 16 };
        for _ in 1..times * IN_TURN {
            let tag = table.fill(at(0x1000, 64)).unwrap();
            assert_eq!(find(table.words(), stale.displace(0x1000), 1), None);
            assert!(table.empty(tag));
        }
        assert!(table.words().count() <= IN_TURN, "readers search few entries");
    }
}
