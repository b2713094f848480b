//! The deaths that this rank tells its peers.

/// The deaths that this rank tells its peers of. Each has a number, from 1 on
/// (`Peer::death`), and each stream counts how many of them it has told.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Deaths {
    pub(super) tells: bool,
    pub(super) count: u32,
    /// Whether there is a death that no stream was asked to tell yet.
    pub(super) fresh: bool,
}

impl Deaths {
    /// Returns whether a stream that has told `told` deaths has more to tell.
    #[inline(always)]
    pub(super) const fn has_more_than(&self, told: u32) -> bool {
        self.count > told
    }
}
