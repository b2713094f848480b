//! Names that programs know: those of functions and of communicators, for observers.

use core::fmt;

use super::seqlock;
use super::waiting::{pack, unpack};
use crate::golden;
use crate::sync::AtomicU64;

/// Words of a [`ShortName`].
pub(super) const NAME_WORDS: usize = 4;

/// Number of communicators that a rank names.
pub const COMMUNICATORS: usize = 16;

/// Words of a communicator.
const WORDS: usize = 2 + NAME_WORDS;

/// A name of at most [`ShortName::BYTES`] bytes. A longer one is cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShortName([u8; Self::BYTES]);

impl ShortName {
    /// Largest length in bytes.
    pub const BYTES: usize = NAME_WORDS * 8;

    /// Creates a name. Returns `None` if it is empty.
    ///
    /// ```
    /// use strait_core::layout::ShortName;
    ///
    /// let name = ShortName::new("MPI_Recv").ok_or("it is not empty")?;
    /// assert_eq!(name.to_string(), "MPI_Recv");
    /// assert!(ShortName::new("").is_none());
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        bytes.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
        (!name.is_empty() && bytes[0] != 0).then_some(Self(bytes))
    }

    pub(super) fn words(name: Option<Self>) -> [u64; NAME_WORDS] {
        let Self(bytes) = name.unwrap_or(Self([0; Self::BYTES]));
        let mut words = [0; NAME_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        words
    }

    pub(super) fn parse(words: &[u64]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        (bytes[0] != 0).then_some(Self(bytes))
    }
}

impl fmt::Display for ShortName {
    /// Writes the name. Bytes that are no text, and control characters, become question marks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::BYTES);
        for chunk in self.0[..end].utf8_chunks() {
            for character in chunk.valid().chars() {
                let shown = if character.is_control() { '?' } else { character };
                fmt::Write::write_char(f, shown)?;
            }
            if !chunk.invalid().is_empty() {
                f.write_str("?")?;
            }
        }
        Ok(())
    }
}

/// A communicator, as one of its members describes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Communicator {
    /// The context of its messages.
    pub context: u32,
    /// The member's rank in it.
    pub rank: u32,
    /// Number of its members.
    pub size: u32,
    /// Its name, if it has one.
    pub name: Option<ShortName>,
}

/// The communicators of one rank. Zeroed memory is the record of a rank with none.
#[derive(Debug)]
#[repr(C)]
pub struct CommunicatorRecord {
    entries: [CommunicatorEntry; COMMUNICATORS],
}

golden::structure!(CommunicatorRecord { entries });

/// The place of one communicator.
///
/// | offset | size | field        | meaning                                     |
/// |-------:|-----:|--------------|---------------------------------------------|
/// |      0 |    8 | `sequence`   | number of writes started and ended          |
/// |      8 |    8 | `words[0]`   | context; number of members, 0 without one   |
/// |     16 |    8 | `words[1]`   | rank in the communicator                    |
/// |     24 |   32 | `words[2..]` | name                                        |
#[derive(Debug)]
#[repr(C)]
struct CommunicatorEntry {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl CommunicatorEntry {
    fn empty() -> Self {
        Self { sequence: AtomicU64::new(0), words: core::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Returns the communicator of a complete write.
    fn read(&self) -> Option<Communicator> {
        let words = seqlock::read(&self.sequence, &self.words)?;
        let ((context, size), (rank, _)) = (unpack(words[0]), unpack(words[1]));
        let name = ShortName::parse(&words[2..]);
        (size > 0).then_some(Communicator { context, rank, size, name })
    }
}

impl CommunicatorRecord {
    /// Creates an empty record, for models and tests.
    #[must_use]
    pub fn empty() -> Self {
        Self { entries: core::array::from_fn(|_| CommunicatorEntry::empty()) }
    }

    /// Records a communicator over an earlier one with the same context. One for which there is no
    /// room stays unknown. Only the record's rank calls it, from one thread at a time.
    pub fn add(&self, communicator: Communicator) {
        let Communicator { context, rank, size, name } = communicator;
        let same =
            |entry: &&CommunicatorEntry| entry.read().is_some_and(|it| it.context == context);
        let free = |entry: &&CommunicatorEntry| entry.read().is_none();
        let found = self.entries.iter().find(same).or_else(|| self.entries.iter().find(free));
        if let Some(entry) = found {
            let mut words = [0; WORDS];
            words[0] = pack(context, size);
            words[1] = u64::from(rank);
            words[2..].copy_from_slice(&ShortName::words(name));
            seqlock::write(&entry.sequence, &entry.words, words);
        }
    }

    /// Removes the communicator with this context. The contract of [`CommunicatorRecord::add`]
    /// applies.
    pub fn remove(&self, context: u32) {
        let same =
            |entry: &&CommunicatorEntry| entry.read().is_some_and(|it| it.context == context);
        if let Some(entry) = self.entries.iter().find(same) {
            seqlock::write(&entry.sequence, &entry.words, [0; WORDS]);
        }
    }

    /// Returns the communicators that are not being written.
    pub fn iter(&self) -> impl Iterator<Item = Communicator> {
        self.entries.iter().filter_map(CommunicatorEntry::read)
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::string::ToString as _;
    use std::vec::Vec;

    use super::*;
    use crate::sync::Ordering::Relaxed;

    fn communicator(context: u32, name: &str) -> Communicator {
        Communicator { context, rank: 1, size: 3, name: ShortName::new(name) }
    }

    #[test]
    fn communicators_are_added_renamed_and_removed() {
        let record = CommunicatorRecord::empty();
        record.add(communicator(0, "world"));
        record.add(communicator(7, ""));
        record.add(communicator(0, "renamed"));
        record.add(communicator(8, "last"));
        record.remove(7);
        let all: Vec<_> = record.iter().collect();
        assert_eq!(all, [communicator(0, "renamed"), communicator(8, "last")]);
        let more = 100..100 + 2 * COMMUNICATORS as u32;
        more.for_each(|context| record.add(communicator(context, "more")));
        assert_eq!(record.iter().count(), COMMUNICATORS);
    }

    #[test]
    fn a_name_that_is_no_text_is_shown_without_control_characters() {
        let record = CommunicatorRecord::empty();
        record.add(communicator(0, "x"));
        record.entries[0].words[2].store(u64::from_le_bytes(*b"a\x1b\xffb\n\0zz"), Relaxed);
        let name = record.iter().next().and_then(|found| found.name).unwrap();
        assert_eq!(name.to_string(), "a??b?");
    }

    #[test]
    fn a_long_name_is_cut() {
        let name = "a communicator of all processes of a plane";
        assert_eq!(ShortName::new(name).unwrap().to_string(), name[..ShortName::BYTES]);
    }
}
