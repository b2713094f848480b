//! The names that Strait reserves for its own messages.

use strait_core::engine::Owner;
use strait_core::matching::{Envelope, TAG_MAX};

/// Bit in the contexts of the library's own messages, so that they match no message of the user.
pub(crate) const INTERNAL: u32 = 1 << 31;

/// Tag of the messages of windows and of their lock managers. No group uses it.
pub(crate) const WINDOW_TAG: u32 = TAG_MAX;

/// Owner of the operations of windows and of their lock managers. No scope has this number.
pub(crate) const WINDOW_OWNER: Owner = Owner(0);

/// Returns whether a message belongs to windows or their lock managers.
pub(crate) const fn is_of_windows(envelope: &Envelope) -> bool {
    envelope.context & INTERNAL != 0 && envelope.tag == WINDOW_TAG
}
