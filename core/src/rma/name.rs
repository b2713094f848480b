//! Names of the messages of windows that use messages. The name contains the kind of the message,
//! and thus its direction.
//!
//! Each origin numbers its operations independently, so the numbers of two ranks coincide. A
//! message with data goes from the origin that numbered it to the target. An answer goes from the
//! target to the origin that numbered it. Between two ranks that are both origins, data and answers
//! of the same number therefore travel in the same direction at the same time. The type of a number
//! tells which of the two it names, and [`RecordName::context`] keeps the kinds apart.

use core::num::NonZeroU32;

/// Number of bits of a context that encode the kind of the message.
const KIND_BITS: u32 = 2;

/// Largest number of a window or a message: with the kind it fits into 31 bits.
pub const NUMBER_MAX: u32 = (1 << (31 - KIND_BITS)) - 1;

/// The number of a message with data, from the origin that counts it to a target.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DataNumber(NonZeroU32);

/// The number of an answer, from a target to the origin that counts it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AnswerNumber(NonZeroU32);

/// The number of a window, as its owner counts its windows.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WindowNumber(NonZeroU32);

/// Parses a number that a peer wrote. Returns `None` if it is out of range.
fn parse(word: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(word).filter(|number| number.get() <= NUMBER_MAX)
}

macro_rules! number {
    ($name:ident) => {
        impl $name {
            /// The first number.
            pub const FIRST: Self = Self(NonZeroU32::MIN);

            /// Returns the number for a word that a peer wrote, or `None` if the word is out of
            /// range.
            #[must_use]
            pub fn parse(word: u32) -> Option<Self> {
                parse(word).map(Self)
            }

            /// Returns the number as a word for a message. It is never zero.
            #[must_use]
            pub const fn word(self) -> u32 {
                self.0.get()
            }

            /// Returns the number after this one. The first number follows the largest.
            #[must_use]
            pub fn next(self) -> Self {
                parse(self.word() + 1).map_or(Self::FIRST, Self)
            }
        }
    };
}

number!(DataNumber);
number!(AnswerNumber);
number!(WindowNumber);

/// The name of a message between two members of windows that use messages.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RecordName {
    /// Records for the window that has this number at the receiver.
    Records(WindowNumber),
    /// Data that a record of the sender names.
    Data(DataNumber),
    /// An answer that a record of the receiver asks for.
    Answer(AnswerNumber),
}

impl RecordName {
    /// Returns the context of the message among a job's internal messages, less than 2³¹.
    ///
    /// No two names have the same context, and none has context 0, which lock managers use.
    #[must_use]
    pub const fn context(self) -> u32 {
        let (number, kind) = match self {
            Self::Records(number) => (number.word(), 1),
            Self::Data(number) => (number.word(), 2),
            Self::Answer(number) => (number.word(), 3),
        };
        number << KIND_BITS | kind
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Numbers at both ends of their range, where names would collide first.
    fn words() -> impl Iterator<Item = u32> {
        (1..100).chain(NUMBER_MAX - 100..=NUMBER_MAX)
    }

    #[test]
    fn no_two_names_share_a_context() {
        let names = words().flat_map(|word| {
            let window = WindowNumber::parse(word).map(RecordName::Records);
            let data = DataNumber::parse(word).map(RecordName::Data);
            [window, data, AnswerNumber::parse(word).map(RecordName::Answer)]
        });
        let mut seen = HashSet::new();
        for name in names {
            let context = name.expect("the number is in its range").context();
            assert!(context > 0 && context < 1 << 31, "{name:?} has context {context}");
            assert!(seen.insert(context), "{name:?} shares context {context}");
        }
    }

    #[test]
    fn a_number_out_of_range_is_not_parsed() {
        for word in [0, NUMBER_MAX + 1, u32::MAX] {
            assert_eq!(DataNumber::parse(word), None);
            assert_eq!(AnswerNumber::parse(word), None);
        }
    }

    #[test]
    fn the_first_number_follows_the_largest() {
        let last = DataNumber::parse(NUMBER_MAX).expect("the highest number");
        assert_eq!(last.next(), DataNumber::FIRST);
        assert_eq!(DataNumber::FIRST.next().word(), 2);
    }
}
