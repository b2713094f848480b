//! Names of the messages of windows by messages: what a message is, and which way it goes, is part of its name.
//!
//! Every origin numbers its operations by itself, so the numbers of two ranks coincide. A message with data goes from the origin
//! that numbered it to the target. An answer goes from the target to the origin that numbered it. Between two ranks that are both
//! origins, data and answers of the same number therefore travel the same way at the same time. The type of a number says which
//! of the two it names, and [`Name::context`] keeps the kinds apart.

use core::num::NonZeroU32;

/// Bits of a context that say what the message is.
const KIND_BITS: u32 = 2;

/// The highest number of a window or a message: with the kind it fits into 31 bits.
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

/// A number that a peer wrote, if it is a number at all.
fn parse(word: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(word).filter(|number| number.get() <= NUMBER_MAX)
}

macro_rules! number {
    ($name:ident) => {
        impl $name {
            /// The first number.
            pub const FIRST: Self = Self(NonZeroU32::MIN);

            /// The number that a word of a peer stands for. `None`: it stands for none.
            #[must_use]
            pub fn parse(word: u32) -> Option<Self> {
                parse(word).map(Self)
            }

            /// The number as it travels. It is never zero.
            #[must_use]
            pub const fn word(self) -> u32 {
                self.0.get()
            }

            /// The number after this one. The first follows the highest.
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

/// What a message is, between two members of windows by messages.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Name {
    /// Records for the window that the receiver calls by this number.
    Records(WindowNumber),
    /// Data that a record of the sender names.
    Data(DataNumber),
    /// What a record of the receiver asks for.
    Answer(AnswerNumber),
}

impl Name {
    /// The context of the message among a job's internal messages: less than 2³¹. No two names have the same, and none has 0, which
    /// lock managers use.
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

    /// Numbers at both ends of their range, where names would meet first.
    fn words() -> impl Iterator<Item = u32> {
        (1..100).chain(NUMBER_MAX - 100..=NUMBER_MAX)
    }

    #[test]
    fn no_two_names_share_a_context() {
        let names = words().flat_map(|word| {
            let window = WindowNumber::parse(word).map(Name::Records);
            let data = DataNumber::parse(word).map(Name::Data);
            [window, data, AnswerNumber::parse(word).map(Name::Answer)]
        });
        let mut seen = HashSet::new();
        for name in names {
            let context = name.expect("the number is in its range").context();
            assert!(context > 0 && context < 1 << 31, "{name:?} has context {context}");
            assert!(seen.insert(context), "{name:?} shares context {context}");
        }
    }

    #[test]
    fn a_number_beyond_the_range_is_none() {
        for word in [0, NUMBER_MAX + 1, u32::MAX] {
            assert_eq!(DataNumber::parse(word), None);
            assert_eq!(AnswerNumber::parse(word), None);
        }
    }

    #[test]
    fn numbers_begin_again_behind_the_highest() {
        let last = DataNumber::parse(NUMBER_MAX).expect("the highest number");
        assert_eq!(last.next(), DataNumber::FIRST);
        assert_eq!(DataNumber::FIRST.next().word(), 2);
    }
}
