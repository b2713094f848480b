//! The memory that a member has attached to a dynamic window (MPI-4.1 §12.2.4).
//!
//! The member has a table of its attachments. The other members read it, by loads or through a
//! device, each time they access such memory.
//!
//! Each entry has a number. The owner raises it when it fills and when it empties the entry, so an
//! odd number means that the entry is in use. A displacement contains the entry and its number
//! beside the address. A stale displacement thus differs from a new one at the same address.
//!
//! A rank that reads an entry while its owner changes it uses memory that is being attached or
//! detached. MPI requires the program to synchronise first. The rank may then read a mixture of
//! both states, and parses it like all data that others wrote.

use super::Signal;
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// Largest number of simultaneous attachments of a member.
pub const ATTACHMENTS: usize = if cfg!(strait_loom) { 2 } else { 63 };

/// Bits of an address: processors offer programs no more.
const ADDRESS: u32 = 48;

/// Bits of the entry in a tag; the remaining bits are those of the entry's number.
const ENTRY: u32 = 6;

const _: () = assert!(ATTACHMENTS < 1 << ENTRY, "entries count from 1, so that no tag is zero");

/// The attachment that a displacement names, in the bits above the address. Zero names any
/// attachment that has the address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttachmentTag(u16);

impl AttachmentTag {
    /// Creates the tag of entry `entry` with this number.
    #[must_use]
    pub const fn new(entry: usize, number: u64) -> Self {
        Self((number as u16) << ENTRY | (entry as u16 + 1))
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

/// The table of one member.
#[derive(Debug)]
#[repr(transparent)]
pub struct AttachmentTable([AttachmentEntry; ATTACHMENTS]);

impl Default for AttachmentTable {
    fn default() -> Self {
        Self(core::array::from_fn(|_| AttachmentEntry::default()))
    }
}

impl AttachmentTable {
    /// Records an attachment in a free entry. Returns `None` if there is no free entry. Only the
    /// owner calls it.
    pub fn fill(&self, attachment: Attachment) -> Option<AttachmentTag> {
        let free = |entry: &AttachmentEntry| entry.number.number().is_multiple_of(2);
        let at = self.0.iter().position(free)?;
        let Attachment { address, length, place, key } = attachment;
        let entry = &self.0[at];
        for (word, value) in entry.words.iter().zip([address, length, place, key]) {
            word.store(value, Relaxed);
        }
        let number = entry.number.number() + 1;
        entry.number.raise(number);
        Some(AttachmentTag::new(at, number))
    }

    /// Removes an attachment. Returns false if it was not attached. Only the owner calls it.
    pub fn empty(&self, tag: AttachmentTag) -> bool {
        let is_it = |(at, entry): &(usize, &AttachmentEntry)| tag.is_of(*at, entry.number.number());
        let found = self.0.iter().enumerate().find(is_it);
        found.is_some_and(|(_, entry)| {
            entry.number.raise(entry.number.number() + 1);
            true
        })
    }

    /// Returns all entries, as a device would read them.
    pub fn words(&self) -> impl Iterator<Item = AttachmentWords> {
        self.0.iter().map(|entry| {
            let number = entry.number.seen();
            let [address, length, place, key] =
                entry.words.each_ref().map(|word| word.load(Relaxed));
            [number, address, length, place, key]
        })
    }
}

/// Finds the attachment among `entries` that contains the `extent` bytes at a displacement. Returns
/// it and its tag, or `None` if there is no such attachment (any more).
pub fn find(
    entries: impl IntoIterator<Item = AttachmentWords>,
    displacement: u64,
    extent: u64,
) -> Option<(Attachment, AttachmentTag)> {
    let (tag, wanted) = AttachmentTag::split(displacement);
    let mut entries = entries.into_iter().enumerate();
    entries.find_map(|(at, [number, address, length, place, key])| {
        let end = wanted.checked_add(extent)?;
        let has =
            !number.is_multiple_of(2) && address <= wanted && end <= address.checked_add(length)?;
        let is_meant = tag.is_none_or(|tag| tag.is_of(at, number));
        let found = Attachment { address, length, place, key };
        (has && is_meant).then_some((found, AttachmentTag::new(at, number)))
    })
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
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
    fn a_full_table_has_room_again_after_a_detach() {
        let table = AttachmentTable::default();
        let tags: [_; ATTACHMENTS] =
            core::array::from_fn(|entry| table.fill(at(entry as u64 * 16, 16)).unwrap());
        assert_eq!(table.fill(at(0, 1)), None);
        for tag in tags {
            assert!(table.empty(tag));
            assert!(table.fill(at(8, 8)).is_some());
        }
    }
}
