//! The facts and services of a job besides messages.

use core::cell::RefMut;
use std::io;
use std::os::fd::OwnedFd;

use strait_core::engine::Tuning;
use strait_core::layout::Life;
use strait_platform::Nodes;
use strait_platform::{Rank, boot, liveness};

use super::World;
use super::groups::GroupRegistry;
use crate::Error;

impl World {
    /// Returns this process's node, from 0. Ranks on one node share memory.
    ///
    /// ```
    /// use strait::{Nodes, World};
    ///
    /// let nodes = Nodes::blocks(4, 2).expect("2 nodes for 4 ranks");
    /// let worlds = World::builder().nodes(nodes).in_process(4)?;
    /// let of_each: Vec<u32> = worlds.iter().map(World::node).collect();
    /// assert_eq!(of_each, [0, 0, 1, 1]);
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub const fn node(&self) -> u32 {
        self.node
    }

    /// Returns the node of `rank`, or `None` for a rank that does not exist.
    ///
    /// ```
    /// let world = &strait::World::in_process(2)?[0];
    /// assert_eq!((world.node_of(1), world.node_of(2)), (Some(0), None));
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn node_of(&self, rank: Rank) -> Option<u32> {
        self.nodes.node_of(rank)
    }

    /// Returns the live groups of this rank.
    pub(crate) fn groups(&self) -> RefMut<'_, GroupRegistry> {
        self.groups.borrow_mut()
    }

    /// Returns the length of the longest message to `rank` that leaves before its receive is
    /// posted, in bytes.
    pub(crate) fn unasked_max(&self, rank: Rank) -> usize {
        let Tuning { eager_max, stream_max, .. } = self.tuning();
        if self.node_of(rank) == Some(self.node) { eager_max } else { stream_max }
    }

    /// Returns the nodes of all ranks. `nodes().ranks_on(node())` are the ranks of this node.
    ///
    /// ```
    /// let world = &strait::World::in_process(2)?[0];
    /// let near: Vec<u32> = world.nodes().ranks_on(world.node()).collect();
    /// assert_eq!(near, [0, 1]);
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns true for the first rank of each node.
    ///
    /// ```
    /// let worlds = strait::World::in_process(2)?;
    /// assert!(worlds[0].is_leader() && !worlds[1].is_leader());
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.nodes.leader(self.node) == Some(self.rank)
    }

    /// Shares one descriptor among all ranks of the job, whatever their nodes. Rank 0 makes it, and
    /// all others that are alive get a copy. All ranks are on one host, and all call this with the
    /// same name. Each name is used once.
    ///
    /// ```
    /// use std::io::{Read, Seek, Write};
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// let make = || {
    ///     let mut file = tempfile::tempfile()?;
    ///     file.write_all(b"shared")?;
    ///     Ok(file.into())
    /// };
    /// let mut file = std::fs::File::from(world.share("a file", make)?);
    /// # world.endpoint().barrier()?;
    /// # if world.rank() == 0 {
    /// let mut text = String::new();
    /// file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("a readable file");
    /// assert_eq!(text, "shared");
    /// # }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Boot`] when the descriptor could not be made or passed on.
    pub fn share(
        &self,
        name: &str,
        make: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> Result<OwnedFd, Error> {
        let mut store = self.store.lock();
        let is_dead = |rank| liveness::is_dead(&self.map.rank_block(rank).liveness);
        Ok(boot::share(store.as_mut(), name, (self.rank, self.size), is_dead, make)?)
    }

    /// Ends this process with exit code `code`, and the whole job as far as the launcher can.
    ///
    /// ```
    /// # fn check(world: &strait::World, residual: f64) {
    /// if residual.is_nan() {
    ///     world.abort(1);
    /// }
    /// # }
    /// ```
    ///
    /// # Source
    ///
    /// MPI-4.1 §9.3, `MPI_ABORT`.
    pub fn abort(&self, code: i32) -> ! {
        self.end(Life::Dead);
        self.store.lock().abort(code);
        std::process::exit(code)
    }
}
