//! The regions of this process that the devices of peers have opened.

use std::collections::{HashMap, VecDeque};

use strait_core::hca::Region;

/// Regions that are open to the devices of peers, and peers that wait for a region.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// The leases, by libfabric's key.
    pub(super) regions: HashMap<u64, Lease>,
    /// Peers that have asked, with the keys, oldest first.
    pub(super) asked: VecDeque<(u32, u64)>,
    /// Number of answers so far.
    pub(super) clock: u64,
    /// Number of recalled leases.
    pub(super) recalled: usize,
}

/// A region that the device has registered for peers.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) region: Region,
    /// Peers that know the device's key.
    pub(super) holders: Vec<u32>,
    /// Time of a peer's last request, as a number of answers.
    pub(super) used: u64,
    /// The holders must return it.
    pub(super) is_recalled: bool,
}

impl Leases {
    /// Returns whether no peer waits for an answer and no region for its return.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.recalled == 0
    }
}
