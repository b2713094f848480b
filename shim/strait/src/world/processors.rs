//! What the number of processors of a node decides: how long a wait of a world spins, and which
//! messages go in parcels.

use strait_core::engine::Tuning;
use strait_core::layout::Life;
use strait_platform::Nodes;
use strait_platform::backoff::SpinLimits;
use strait_platform::topology::allowed_together;

use super::World;
use crate::{Error, env};

/// Longest message that goes in parcels where ranks take turns on processors, in bytes. Both sides
/// copy at once in parcels. Where they cannot, one copy by the kernel is faster. Four ranks on two
/// processors, near, µs in parcels and by one copy: messages between random pairs of 128 KiB 21 and
/// 18, of 256 KiB 43 and 33, of 512 KiB 120 and 65; 128 KiB from each to the next, 15 to 30 and 11.
const PARCEL_MAX_CROWDED: usize = 64 << 10;

impl World {
    /// Returns how long a wait on `node` spins, if the ranks there share `cpus` processors.
    pub(super) fn spin_limits(
        nodes: &Nodes,
        node: u32,
        cpus: usize,
        beside_devices: bool,
    ) -> SpinLimits {
        let spin = SpinLimits::new(nodes.ranks_on(node).count() as u32, cpus);
        if beside_devices { spin.beside_devices(nodes.ranks(), cpus) } else { spin }
    }

    /// Chooses the longest message in parcels for `cpus` processors, if the user has not.
    pub(super) fn suit_parcels(&self, cpus: usize) {
        let is_crowded = cpus < self.nodes.ranks_on(self.node).count();
        let mut engine = self.lock_progress();
        let (tuning, usual) = (engine.tuning(), Tuning::default().parcel_max);
        let crowded = usual.min(PARCEL_MAX_CROWDED);
        if [usual, crowded].contains(&tuning.parcel_max) {
            let parcel_max = if is_crowded { crowded } else { usual };
            engine.retune(Tuning { parcel_max, ..tuning });
        }
    }

    /// Counts the processors of this node again: those that any of its ranks may use. They decide
    /// how long a wait spins before it sleeps, and which messages go in parcels. Returns their
    /// number.
    ///
    /// A rank joins with the number that it may use itself. That is 1 where a launcher that is not
    /// Strait's binds each rank, and every short wait would sleep. An embedder calls this when all
    /// ranks have joined, since only then are all of them known. `STRAIT_CPUS` has precedence.
    ///
    /// ```
    /// let mut worlds = strait::World::in_process(2)?;
    /// assert!(worlds[1].recount_processors()? > 0);
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Environment`] when the value of `STRAIT_CPUS` is unusable.
    pub fn recount_processors(&mut self) -> Result<usize, Error> {
        if let Some(cpus) = env::cpus_asked()? {
            return Ok(cpus);
        }
        let segment = self.segment();
        let words = self.nodes.ranks_on(self.node).map(|rank| &segment.rank_block(rank).liveness);
        let living = words.filter(|word| word.state() == Life::Alive);
        let cpus = allowed_together(living.map(|word| word.process().0));
        let beside_devices = self.with_network(|network| network.has_threads()).unwrap_or(false);
        self.spin = Self::spin_limits(&self.nodes, self.node, cpus, beside_devices);
        self.suit_parcels(cpus);
        Ok(cpus)
    }
}
