//! The classes of messages, which are matched separately.

use crate::abi::flag;
use crate::wire::HeadKind;

/// The class of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub(crate) enum MessageClass {
    Msg = 0,
    Tagged = 1,
}

impl MessageClass {
    /// Returns the flag of the class in completion entries.
    pub(super) const fn flag(self) -> u64 {
        match self {
            Self::Msg => flag::MSG,
            Self::Tagged => flag::TAGGED,
        }
    }

    /// Returns the kind of a head that its bytes follow.
    pub(super) const fn inline(self) -> HeadKind {
        match self {
            Self::Msg => HeadKind::Msg,
            Self::Tagged => HeadKind::Tagged,
        }
    }

    /// Returns the kind of a head if the data travel separately.
    pub(super) const fn away(self) -> HeadKind {
        match self {
            Self::Msg => HeadKind::MsgAway,
            Self::Tagged => HeadKind::TaggedAway,
        }
    }
}
