//! The announcement of bytes that do not go through the slots.

use super::landing::Landing;
use crate::hca::RemoteAddress;
use crate::sync::CACHE_LINE;

/// The location of a large part, or of the place for one. It is the payload of an announcement or a
/// grant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub(super) struct Announcement {
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) key: u64,
}

/// Size of an announcement, in bytes.
pub(super) const ANNOUNCEMENT: usize = size_of::<Announcement>();

const _: () = assert!(cfg!(strait_loom) || ANNOUNCEMENT + size_of::<Landing>() <= CACHE_LINE);

impl Announcement {
    /// Returns the place that it names.
    pub(super) const fn remote(&self) -> RemoteAddress {
        RemoteAddress { address: self.address, key: self.key as u32 }
    }
}
