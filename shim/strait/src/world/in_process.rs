//! Jobs inside one process: a world for each rank, for use by a thread of its own.

use std::sync::Arc;
use std::thread;

use strait_core::engine::Tuning;
use strait_core::layout::{SegmentConfig, SegmentPlan};
use strait_platform::boot::{self, InProcess, SharedStore};
use strait_platform::segment::{SegmentError, SegmentMap};
use strait_platform::{Nodes, liveness, topology};

use super::World;
use crate::Error;
use crate::network::job::{self as networks, NetworkKind};

impl World {
    /// Creates a job of `ranks` ranks inside this process: a world for each, for use by a thread of
    /// its own. It serves tests, and programs that prefer threads to processes.
    ///
    /// ```
    /// let worlds = strait::World::in_process(2)?;
    /// worlds[0].endpoint().send(&[1_u8, 2, 3], 1, 0)?;
    /// let mut bytes = [0_u8; 3];
    /// worlds[1].endpoint().recv(&mut bytes, 0, 0)?;
    /// assert_eq!(bytes, [1, 2, 3]);
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Segment`] when memory is insufficient, or no such job is possible.
    pub fn in_process(ranks: u32) -> Result<Vec<Self>, Error> {
        Self::builder().in_process(ranks)
    }

    /// Runs `body` as each rank of a job inside this process, on a thread for each rank. Returns
    /// the results in the order of the ranks. It serves tests.
    ///
    /// A rank leaves the job when its `body` returns. A rank with an error or a panic makes its
    /// peers fail, so they do not wait for it for ever.
    ///
    /// ```
    /// let sums = strait::World::run_in_process(4, |world| {
    ///     let mut sum = [world.rank()];
    ///     world.endpoint().allreduce(&mut sum, strait::Op::Sum)?;
    ///     Ok(sum[0])
    /// })?;
    /// assert_eq!(sums, [6; 4]);
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`World::in_process`]; the error of the lowest rank that has one.
    ///
    /// # Panics
    ///
    /// When `body` panics.
    pub fn run_in_process<T: Send>(
        ranks: u32,
        body: impl Fn(&Self) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let worlds = Self::in_process(ranks)?;
        let body = &body;
        thread::scope(|scope| {
            let run = |world: Self| {
                scope.spawn(move || {
                    let result = body(&world)?;
                    world.finalize().map(|()| result)
                })
            };
            let threads: Vec<_> = worlds.into_iter().map(run).collect();
            let results: Vec<_> = threads
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect();
            results.into_iter().collect()
        })
    }

    /// Returns an error for a shape that no segment has.
    pub(super) fn check_shape(config: SegmentConfig) -> Result<(), Error> {
        SegmentPlan::new(config).map_err(SegmentError::from)?;
        Ok(())
    }

    pub(crate) fn in_process_by(
        kind: NetworkKind,
        tuning: Tuning,
        config: SegmentConfig,
        nodes: &Nodes,
    ) -> Result<Vec<Self>, Error> {
        assert_eq!(config.ranks, nodes.ranks(), "ranks of the segment and ranks on nodes");
        let nonce = boot::nonce()?;
        let maps = (0..nodes.count().max(1))
            .map(|node| SegmentMap::create_on(config, nonce, nodes, node).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let cpus = topology::allowed_cpu_count();
        let store = InProcess::new(config.ranks);
        let share = |_| SharedStore::new(Box::new(store.clone()));
        let stores: Vec<_> = (0..config.ranks).map(share).collect();
        let networks = networks::in_process(kind, nodes, &stores)?;
        (0..config.ranks)
            .zip(networks.into_iter().zip(stores))
            .map(|(rank, (network, store))| {
                let map = &maps[nodes.node_of(rank).unwrap_or(0) as usize];
                liveness::attach_self(&map.rank_block(rank).liveness);
                Self::new(Arc::clone(map), rank, nodes.clone(), store, network, cpus, tuning)
            })
            .collect()
    }
}
