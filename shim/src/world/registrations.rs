//! Memory that stays registered with the device between two large messages.

use core::ops::Range;

use super::World;
use crate::network::NetworkError;
use crate::{Error, Registrations};

impl World {
    /// What has become of registrations so far: how many large transfers between nodes found their memory registered, and how many
    /// did not. All zero in a job on one node.
    #[must_use]
    pub fn registrations(&self) -> Registrations {
        self.with_network(|network| network.device().counts()).unwrap_or_default()
    }

    /// Links to ranks on other nodes that were made so far. Each is made with the first message between the two.
    #[must_use]
    pub fn links(&self) -> usize {
        self.with_network(|network| network.links()).unwrap_or(0)
    }

    /// Keeps the program's own memory registered after its use, in case it is used again. [`World::alloc`]'s is kept anyway.
    ///
    /// To register memory takes longer than to send some hundred KiB of it, so it pays to do so once. But an RDMA device reaches the
    /// pages that it was shown, even when others are at their address since. `watch` is asked before each registration, until it has no
    /// more to say, for addresses behind which there is something else now: an embedder's hooks into its allocator or into `munmap`
    /// fill a list that it empties. Who has no hooks gives `|| None`, and calls [`World::forget_memory`]. The last call counts.
    ///
    /// # Safety
    ///
    /// Whatever memory takes part in operations of this world is reported by `watch`, or to [`World::forget_memory`], after it was unmapped
    /// or mapped anew and before it takes part in another one. `watch` calls nothing of this world.
    ///
    /// # Source
    ///
    /// `[RdmaChannel04]` §5, registration cache.
    pub unsafe fn watch_memory(
        &self,
        watch: impl FnMut() -> Option<Range<usize>> + Send + 'static,
    ) {
        self.with_network(|network| network.device().watch().program = Some(Box::new(watch)));
    }

    /// Keeps nothing registered that lies at these addresses: before the memory is unmapped, or after. What an operation is at work on goes when
    /// that has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Network`] when the device does not give a registration back. It is forgotten nevertheless.
    pub fn forget_memory(&self, memory: Range<usize>) -> Result<(), Error> {
        let (address, length) = (memory.start as u64, memory.len() as u64);
        let forgotten = self.with_network(|network| network.device().invalidate(address, length));
        forgotten.unwrap_or(Ok(())).map_err(|error| NetworkError::Device(error).into())
    }
}
