//! How long a wait of a world spins, which the processors of its node decide.

use strait_core::layout::Life;
use strait_platform::topology::allowed_together;

use super::World;
use crate::{Error, env};

impl World {
    /// Counts the processors of this node again: those that any of its ranks may use. They decide
    /// how long a wait spins before it sleeps. Returns their number.
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
        Ok(cpus)
    }
}
