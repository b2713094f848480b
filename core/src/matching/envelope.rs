//! The envelope of a message and the pattern of a receive (MPI-4.1 §3.2.3, §3.2.4).

use super::bins::{BinKey, Bins};
use super::selector::{Filing, Selector};
use super::unfiled::Mark;
use crate::memory::Memory;

/// The source of a selector that takes messages of every source. No rank has this number.
pub const ANY_SOURCE: u32 = u32::MAX;

/// The tag of a [`Pattern`] that takes messages of every tag. No message has this tag.
pub const ANY_TAG: u32 = u32::MAX;

/// The highest tag of a message: tags are non-negative C `int`s.
pub const TAG_MAX: u32 = i32::MAX as u32;

/// The envelope of a message (MPI-4.1 §3.2.3). The destination is the rank that reads it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Envelope {
    /// The context of the communicator.
    pub context: u32,
    /// The sending rank.
    pub source: u32,
    /// The tag, at most [`TAG_MAX`].
    pub tag: u32,
}

/// The messages that a receive or probe accepts (MPI-4.1 §3.2.4).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Pattern {
    /// The context of the communicator. It has no wildcard.
    pub context: u32,
    /// The sending rank, or [`ANY_SOURCE`].
    pub source: u32,
    /// The tag, or [`ANY_TAG`].
    pub tag: u32,
}

impl Pattern {
    /// Returns whether a receive with this pattern may take a message with that envelope
    /// (MPI-4.1 §3.2.4).
    #[inline]
    #[must_use]
    pub const fn matches(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && (self.source == ANY_SOURCE || self.source == envelope.source)
            && (self.tag == ANY_TAG || self.tag == envelope.tag)
    }

    /// Returns whether a message may have the tag, or it is [`ANY_TAG`].
    #[inline(always)]
    pub(crate) const fn has_valid_tag(&self) -> bool {
        self.tag <= TAG_MAX || self.tag == ANY_TAG
    }

    /// Returns the class of this pattern: the fields that are wildcards.
    #[inline(always)]
    pub(super) const fn wildcards(&self) -> WildcardClass {
        match (self.source, self.tag) {
            (ANY_SOURCE, ANY_TAG) => WildcardClass::AnyBoth,
            (ANY_SOURCE, _) => WildcardClass::AnySource,
            (_, ANY_TAG) => WildcardClass::AnyTag,
            _ => WildcardClass::Exact,
        }
    }
}

impl Selector for Pattern {
    #[inline]
    fn matches(&self, envelope: &Envelope) -> bool {
        Self::matches(self, envelope)
    }
}

impl Filing for Pattern {
    type Envelope = Envelope;
    type Class = WildcardClass;
    type Key = BinKey;
    type Bins<M: Memory> = Bins<M>;
    type PerClass<T: Copy> = [T; WildcardClass::ALL.len()];

    const CLASSES: &'static [WildcardClass] = &WildcardClass::ALL;
    const IS_EXACT: bool = true;

    #[inline(always)]
    fn per_class<T: Copy>(value: T) -> [T; WildcardClass::ALL.len()] {
        [value; WildcardClass::ALL.len()]
    }

    #[inline(always)]
    fn index(class: WildcardClass) -> usize {
        class as usize
    }

    #[inline(always)]
    fn class(&self) -> WildcardClass {
        self.wildcards()
    }

    #[inline(always)]
    fn key(&self) -> BinKey {
        BinKey::of(*self)
    }

    #[inline(always)]
    fn key_matching(envelope: &Envelope, class: WildcardClass) -> BinKey {
        BinKey::matching(envelope, class)
    }

    #[inline(always)]
    fn mark(&self) -> Mark {
        match self.wildcards() {
            WildcardClass::Exact => {
                let Self { context, source, tag } = *self;
                Self::mark_matching(&Envelope { context, source, tag })
            }
            _ => Mark::ANY,
        }
    }

    // The tags of a program often follow each other, and so do its ranks.
    #[inline(always)]
    fn mark_matching(envelope: &Envelope) -> Mark {
        let Envelope { context, source, tag } = *envelope;
        let whence = source.wrapping_mul(0x243f_6a89) ^ context.wrapping_mul(0x299f_31d1);
        Mark::of(tag ^ whence)
    }
}

/// Patterns by their wildcards. One pattern of each class matches a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum WildcardClass {
    /// No wildcard.
    Exact,
    /// Any source, one tag.
    AnySource,
    /// One source, any tag.
    AnyTag,
    /// Any source and any tag.
    AnyBoth,
}

impl WildcardClass {
    /// All classes; each at the index that is its number.
    pub(super) const ALL: [Self; 4] = [Self::Exact, Self::AnySource, Self::AnyTag, Self::AnyBoth];

    /// Returns the only pattern of this class that matches `envelope`.
    #[inline(always)]
    pub(super) const fn pattern(self, envelope: &Envelope) -> Pattern {
        let Envelope { context, source, tag } = *envelope;
        match self {
            Self::Exact => Pattern { context, source, tag },
            Self::AnySource => Pattern { context, source: ANY_SOURCE, tag },
            Self::AnyTag => Pattern { context, source, tag: ANY_TAG },
            Self::AnyBoth => Pattern { context, source: ANY_SOURCE, tag: ANY_TAG },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Envelope = Envelope { context: 1, source: 2, tag: 3 };

    #[test]
    fn a_wildcard_stands_for_every_value_of_its_own_field() {
        for class in WildcardClass::ALL {
            let pattern = class.pattern(&HELLO);
            assert_eq!(pattern.wildcards(), class);
            assert!(pattern.matches(&HELLO));
            assert!(!pattern.matches(&Envelope { context: 9, ..HELLO }), "contexts never mix");
            let any_source = matches!(class, WildcardClass::AnySource | WildcardClass::AnyBoth);
            assert_eq!(pattern.matches(&Envelope { source: 9, ..HELLO }), any_source);
            let any_tag = matches!(class, WildcardClass::AnyTag | WildcardClass::AnyBoth);
            assert_eq!(pattern.matches(&Envelope { tag: 9, ..HELLO }), any_tag);
        }
    }

    #[test]
    fn a_class_is_its_index() {
        assert!(
            WildcardClass::ALL.iter().enumerate().all(|(index, &class)| class as usize == index)
        );
    }

    #[test]
    fn wildcards_are_no_tag() {
        const { assert!(ANY_TAG > TAG_MAX) };
    }
}
