//! The memory that a member has attached to a dynamic window (MPI-4.1 §12.2.4): a table that others read, by loads or through a
//! device, each time that they reach for it.
//!
//! An entry has a number that its owner raises when it is filled and when it is emptied: odd while there is something. A displacement
//! names entry and number beside the address, so that one which is out of date is told from a new one at the same address.
//!
//! Who reads an entry while its owner changes it uses memory that is being attached or detached: MPI has a program synchronise
//! first. What was read then may be of both; it is parsed like all that others wrote.

use super::Signal;
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// Attachments of a member at a time.
pub const ATTACHMENTS: usize = if cfg!(strait_loom) { 2 } else { 63 };

/// Bits of an address: processors have no more for programs.
const ADDRESS: u32 = 48;

/// Bits of the entry in a tag; the rest are of its number.
const ENTRY: u32 = 6;

const _: () = assert!(ATTACHMENTS < 1 << ENTRY, "an entry counts from 1, so that no tag is zero");

/// Which attachment a displacement means, in its bits above an address; zero: whichever has the address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tag(u16);

impl Tag {
    /// The tag of entry `entry` with this number.
    #[must_use]
    pub const fn new(entry: usize, number: u64) -> Self {
        Self((number as u16) << ENTRY | (entry as u16 + 1))
    }

    /// The displacement of `address` under this tag.
    #[must_use]
    pub const fn displace(self, address: u64) -> u64 {
        (self.0 as u64) << ADDRESS | address
    }

    /// The tag of a displacement, if it has one, and its address.
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

/// Memory that is attached, as its owner says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Attachment {
    /// Its address in its owner.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Distance from the start of its owner's heap; [`u64::MAX`]: it does not lie there.
    pub place: u64,
    /// The remote key for devices.
    pub key: u64,
}

/// An entry of the table. Zeroed memory is the first state.
#[derive(Debug, Default)]
#[repr(C)]
struct Entry {
    number: Signal,
    words: [AtomicU64; 4],
}

/// The words of an entry, its number first, as a device reads them.
pub type Words = [u64; 5];

#[cfg(not(strait_loom))]
const _: () = assert!(size_of::<Entry>() == size_of::<Words>(), "no gaps");

/// The table of one member.
#[derive(Debug)]
#[repr(transparent)]
pub struct Table([Entry; ATTACHMENTS]);

impl Default for Table {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Entry::default()))
    }
}

impl Table {
    /// Says that something is attached, in a free entry. `None`: there is none. Its owner alone calls it.
    pub fn fill(&self, attachment: Attachment) -> Option<Tag> {
        let free = |entry: &Entry| entry.number.number().is_multiple_of(2);
        let at = self.0.iter().position(free)?;
        let Attachment { address, length, place, key } = attachment;
        let entry = &self.0[at];
        for (word, value) in entry.words.iter().zip([address, length, place, key]) {
            word.store(value, Relaxed);
        }
        let number = entry.number.number() + 1;
        entry.number.raise(number);
        Some(Tag::new(at, number))
    }

    /// Says that it is attached no more. False: it was not. Its owner alone calls it.
    pub fn empty(&self, tag: Tag) -> bool {
        let is_it = |(at, entry): &(usize, &Entry)| tag.is_of(*at, entry.number.number());
        let found = self.0.iter().enumerate().find(is_it);
        found.is_some_and(|(_, entry)| {
            entry.number.raise(entry.number.number() + 1);
            true
        })
    }

    /// All entries, as a device would read them.
    pub fn words(&self) -> impl Iterator<Item = Words> {
        self.0.iter().map(|entry| {
            let number = entry.number.seen();
            let [address, length, place, key] =
                entry.words.each_ref().map(|word| word.load(Relaxed));
            [number, address, length, place, key]
        })
    }
}

/// The attachment among `entries` that has the `extent` bytes at a displacement, and its tag; `None`: there is none any more, or
/// there never was.
pub fn find(
    entries: impl IntoIterator<Item = Words>,
    displacement: u64,
    extent: u64,
) -> Option<(Attachment, Tag)> {
    let (tag, wanted) = Tag::split(displacement);
    let mut entries = entries.into_iter().enumerate();
    entries.find_map(|(at, [number, address, length, place, key])| {
        let end = wanted.checked_add(extent)?;
        let has =
            !number.is_multiple_of(2) && address <= wanted && end <= address.checked_add(length)?;
        let is_meant = tag.is_none_or(|tag| tag.is_of(at, number));
        let found = Attachment { address, length, place, key };
        (has && is_meant).then_some((found, Tag::new(at, number)))
    })
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    fn at(address: u64, length: u64) -> Attachment {
        Attachment { address, length, place: u64::MAX, key: 7 }
    }

    #[test]
    fn what_is_attached_is_found_by_any_of_its_addresses_and_then_no_more() {
        let table = Table::default();
        let found = |displacement, extent| find(table.words(), displacement, extent);
        assert_eq!(found(0, 0), None);
        let one = table.fill(at(0x1000, 64)).unwrap();
        let two = table.fill(at(0x2000, 8)).unwrap();
        assert_eq!(found(0x1000, 64), Some((at(0x1000, 64), one)));
        assert_eq!(found(one.displace(0x1010), 8), Some((at(0x1000, 64), one)));
        assert_eq!(found(one.displace(0x1010), 0x31), None, "beyond its end");
        assert_eq!(found(two.displace(0x1010), 8), None, "another's");
        assert_eq!(found(0x2001, 7), Some((at(0x2000, 8), two)));
        assert!(table.empty(one) && !table.empty(one));
        assert_eq!(found(0x1000, 1), None);
        let three = table.fill(at(0x1000, 64)).unwrap();
        assert_eq!(found(one.displace(0x1000), 1), None, "an old one at the same address");
        assert_eq!(found(three.displace(0x1000), 1), Some((at(0x1000, 64), three)));
        assert_eq!(found(u64::MAX, u64::MAX), None);
    }

    #[test]
    fn a_table_is_full_at_some_time_and_has_room_again() {
        let table = Table::default();
        let tags: [_; ATTACHMENTS] =
            core::array::from_fn(|entry| table.fill(at(entry as u64 * 16, 16)).unwrap());
        assert_eq!(table.fill(at(0, 1)), None);
        for tag in tags {
            assert!(table.empty(tag));
            assert!(table.fill(at(8, 8)).is_some());
        }
    }
}
