//! What a message says about itself and what a receive asks for (MPI-4.1 §3.2.3, §3.2.4).

/// The source of a [`Pattern`] that takes messages of every source. No rank has this number.
pub const ANY_SOURCE: u32 = u32::MAX;

/// The tag of a [`Pattern`] that takes messages of every tag. No message has this tag.
pub const ANY_TAG: u32 = u32::MAX;

/// The highest tag of a message: tags are non-negative C `int`s.
pub const TAG_MAX: u32 = i32::MAX as u32;

/// The envelope of a message (MPI-4.1 §3.2.3). The destination is whoever reads it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Envelope {
    /// The context of the communicator.
    pub context: u32,
    /// The sending rank.
    pub source: u32,
    /// The tag, at most [`TAG_MAX`].
    pub tag: u32,
}

/// What a receive or probe takes (MPI-4.1 §3.2.4).
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
    /// Whether a receive with this pattern may take a message with that envelope (MPI-4.1 §3.2.4).
    ///
    /// Which of several candidates it takes is a matter of order (MPI-4.1 §3.5): the oldest.
    #[inline]
    #[must_use]
    pub const fn matches(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && (self.source == ANY_SOURCE || self.source == envelope.source)
            && (self.tag == ANY_TAG || self.tag == envelope.tag)
    }

    /// Which fields are wildcards.
    #[inline(always)]
    pub(super) const fn class(&self) -> Class {
        match (self.source, self.tag) {
            (ANY_SOURCE, ANY_TAG) => Class::AnyBoth,
            (ANY_SOURCE, _) => Class::AnySource,
            (_, ANY_TAG) => Class::AnyTag,
            _ => Class::Exact,
        }
    }
}

/// Patterns by their wildcards: a message is matched by one pattern of each class.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(super) enum Class {
    Exact,
    AnySource,
    AnyTag,
    AnyBoth,
}

impl Class {
    /// All classes; each at the index that is its number.
    pub(super) const ALL: [Self; 4] = [Self::Exact, Self::AnySource, Self::AnyTag, Self::AnyBoth];

    /// The one pattern of this class that matches `envelope`.
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
        for class in Class::ALL {
            let pattern = class.pattern(&HELLO);
            assert_eq!(pattern.class(), class);
            assert!(pattern.matches(&HELLO));
            assert!(!pattern.matches(&Envelope { context: 9, ..HELLO }), "contexts never mix");
            let any_source = matches!(class, Class::AnySource | Class::AnyBoth);
            assert_eq!(pattern.matches(&Envelope { source: 9, ..HELLO }), any_source);
            let any_tag = matches!(class, Class::AnyTag | Class::AnyBoth);
            assert_eq!(pattern.matches(&Envelope { tag: 9, ..HELLO }), any_tag);
        }
    }

    #[test]
    fn a_class_is_its_index() {
        assert!(Class::ALL.iter().enumerate().all(|(index, &class)| class as usize == index));
    }

    #[test]
    fn wildcards_are_no_tag() {
        const { assert!(ANY_TAG > TAG_MAX) };
    }
}
