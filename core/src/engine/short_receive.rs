//! The selector and the result of a short receive.

use super::Status;
use crate::matching::ANY_TAG;
use crate::wire::Key;

/// The result of [`super::Engine::recv_short`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bypass {
    /// The message, which is received.
    Received(Status),
    /// Nothing from this source yet. A further poll may succeed.
    Nothing,
    /// This receive cannot go round matching; use [`super::Engine::irecv`].
    Closed,
}

/// The context and tag that a receive wants, as a comparison of one word.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    pub(super) key: u64,
    pub(super) mask: u64,
}

impl Want {
    /// Selects messages of `context` with `tag`, or with any tag for [`ANY_TAG`].
    #[inline(always)]
    #[must_use]
    pub const fn new(context: u32, tag: u32) -> Self {
        Self::of(Key::new(context, tag))
    }

    /// Selects messages with the context and tag of `key`, or with any tag for [`ANY_TAG`].
    #[inline(always)]
    #[must_use]
    pub const fn of(key: Key) -> Self {
        let mask = if key.tag() == ANY_TAG { !0 << 32 } else { !0 };
        Self { key: key.0, mask }
    }

    /// Selects messages of `context` with `tag` only. The tag [`ANY_TAG`] selects no message.
    #[inline(always)]
    #[must_use]
    pub const fn exactly(context: u32, tag: u32) -> Self {
        Self::exactly_of(Key::new(context, tag))
    }

    /// Selects messages with the context and tag of `key` only.
    #[inline(always)]
    #[must_use]
    pub const fn exactly_of(key: Key) -> Self {
        Self { key: key.0, mask: !0 }
    }

    #[inline(always)]
    pub(super) const fn accepts(self, key: Key) -> bool {
        (key.0 ^ self.key) & self.mask == 0
    }
}
