//! The pending accesses to memory on other nodes.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::landing::LandingBuffers;
use super::leases::Leases;
use super::running::Running;
use crate::wire::Opened;

/// Accesses to memory on other nodes, and the state of its registrations.
#[derive(Debug, Default)]
pub(in crate::traffic) struct RemoteAccesses {
    /// Regions of other processes, by owner and libfabric's key. `None`: requested.
    pub(super) known: HashMap<(u32, u64), Option<Opened>>,
    /// Pending accesses, by the owner of the memory.
    pub(super) flows: BTreeMap<u32, PeerAccesses>,
    pub(super) landing: Option<LandingBuffers>,
    /// Number of registered user buffers.
    pub(super) registered: usize,
    /// Regions that their owners have recalled while transfers still name them.
    pub(super) recalled: Vec<(u32, u64)>,
    pub(super) lent: Leases,
}

/// Accesses to the memory of one process, oldest first.
#[derive(Debug, Default)]
pub(super) struct PeerAccesses {
    /// Accesses with bytes that are in no transfer yet. Only the first may have some in transfers.
    pub(super) waiting: VecDeque<Running>,
    /// Accesses with all of their bytes in transfers.
    pub(super) flying: VecDeque<Running>,
    /// Number of reads in `flying`.
    pub(super) reads: usize,
    /// A pending question to the owner: its number, and the number of accesses of `flying`, from
    /// the first on, that it asks about.
    pub(super) proving: Option<(u32, usize)>,
    /// Number of accesses of `flying`, from the first on, that the owner has confirmed.
    pub(super) proven: usize,
}

impl PeerAccesses {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_empty()
    }
}
