//! What a world knows of its job, and asks of it, besides messages.

use core::cell::RefMut;
use std::io;
use std::os::fd::OwnedFd;

use strait_core::layout::Life;
use strait_core::progress::Tuning;

use super::World;
use crate::collective::Registry;
use crate::nodes::Nodes;
use crate::{Error, Rank, boot};

impl World {
    /// This process's node, from 0. Ranks on one node share memory.
    #[inline]
    #[must_use]
    pub const fn node(&self) -> u32 {
        self.node
    }

    /// The node of `rank`; `None` for a rank that does not exist.
    #[must_use]
    pub fn node_of(&self, rank: Rank) -> Option<u32> {
        self.nodes.node_of(rank)
    }

    /// The groups of this rank that live.
    pub(crate) fn groups(&self) -> RefMut<'_, Registry> {
        self.groups.borrow_mut()
    }

    /// Longest message to `rank` that leaves before its receive is there, bytes.
    pub(crate) fn unasked_max(&self, rank: Rank) -> usize {
        let Tuning { eager_max, stream_max, .. } = self.tuning();
        if self.node_of(rank) == Some(self.node) { eager_max } else { stream_max }
    }

    /// Which rank is on which node: the ranks of this node are `nodes().ranks_on(node())`.
    #[must_use]
    pub const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// True for the first rank of each node.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.nodes.leader(self.node) == Some(self.rank)
    }

    /// Shares one descriptor among all ranks of the job, whatever their nodes: rank 0 makes it, all others get a copy. All
    /// ranks must be on one host, call it, and give it the same name, each name once.
    ///
    /// # Errors
    ///
    /// [`Error::Boot`]: it could not be made, or not be handed over.
    pub fn share(
        &self,
        name: &str,
        make: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> Result<OwnedFd, Error> {
        let mut store = self.store.borrow_mut();
        Ok(boot::share(store.as_mut(), name, (self.rank, self.size), make)?)
    }

    /// Ends this process with exit code `code`, and the whole job with it as far as the launcher can.
    ///
    /// # Source
    ///
    /// MPI-4.1 §9.3, `MPI_ABORT`.
    pub fn abort(&self, code: i32) -> ! {
        self.end(Life::Dead);
        self.store.borrow_mut().abort(code);
        std::process::exit(code)
    }
}
