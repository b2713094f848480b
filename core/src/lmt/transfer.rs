//! The transfers of large messages.

use crate::buffer::copy::Stores;

/// A method to transfer large messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transfer {
    /// By whichever of [`super::CANDIDATES`] was fastest lately, for each peer and class of
    /// lengths.
    Auto,
    /// One copy, which both sides make together.
    CmaShared,
    /// One copy, which the receiver makes.
    Cma,
    /// The copy ring, with cached stores.
    CopyRing,
    /// The copy ring, with non-temporal stores.
    CopyRingStreamed,
}

impl Transfer {
    /// All transfers, the default first.
    pub const ALL: [Self; 5] =
        [Self::Auto, Self::CmaShared, Self::Cma, Self::CopyRing, Self::CopyRingStreamed];

    /// Returns the name in tables and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::CmaShared => "cma_shared",
            Self::Cma => "cma",
            Self::CopyRing => "copy_ring",
            Self::CopyRingStreamed => "copy_ring_nt",
        }
    }

    /// Returns true if data in a heap are copied in place. The copy ring, if requested, is used
    /// even for heaps.
    pub(crate) const fn uses_heaps(self) -> bool {
        !matches!(self, Self::CopyRing | Self::CopyRingStreamed)
    }

    /// Returns true if the data go through the copy ring.
    pub(super) const fn is_ring(self) -> bool {
        matches!(self, Self::CopyRing | Self::CopyRingStreamed)
    }

    /// Returns true if the receiver may read the sender's memory.
    pub(super) const fn reads(self) -> bool {
        matches!(self, Self::CmaShared | Self::Cma)
    }

    /// Returns true if the sender may write to the receiver's memory.
    pub(super) const fn writes(self) -> bool {
        matches!(self, Self::CmaShared)
    }

    /// Returns the kind of stores with which the sender fills the copy ring.
    pub(crate) const fn stores(self) -> Stores {
        match self {
            Self::CopyRingStreamed => Stores::NonTemporal,
            _ => Stores::Cached,
        }
    }
}
