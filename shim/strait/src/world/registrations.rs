//! The memory that stays registered with the device between two large messages.

use core::ops::Range;

use super::World;
use crate::{Error, NetworkError, Registrations};

impl World {
    /// Returns counts of registrations: large transfers between nodes that found their memory
    /// registered, and others. All counts are zero in a job on one node.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// println!("{:?}", world.registrations());
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn registrations(&self) -> Registrations {
        self.with_network(|network| network.device().counts()).unwrap_or_default()
    }

    /// Returns the number of links to ranks on other nodes made so far. The first message between
    /// two ranks makes their link.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// assert_eq!(world.links(), 0, "all ranks are on one node");
    /// # Ok::<(), strait::Error>(())
    /// ```
    #[must_use]
    pub fn links(&self) -> usize {
        self.with_network(|network| network.links()).unwrap_or(0)
    }

    /// Keeps the program's own memory registered after its use, in case it is used again. The
    /// memory of [`World::alloc`] always stays registered.
    ///
    /// Registering memory takes longer than sending some hundred KiB of it, so it pays to register
    /// once. But an RDMA device reaches the pages that were registered, even when other pages have
    /// their address now. Before each registration, the world calls `watch` until it returns
    /// `None`. Each range that it returns is an address range with other memory behind it now. An
    /// embedder's hooks into its allocator or `munmap` fill a list, and `watch` empties it. An
    /// embedder without hooks passes `|| None` and calls [`World::forget_memory`]. The last call
    /// replaces earlier ones.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let world = &strait::World::in_process(1)?[0];
    /// // The allocator of this program reports each address range that it unmaps.
    /// let (_report, unmapped) = mpsc::channel();
    /// // SAFETY: the allocator reports a range before it maps other memory there.
    /// unsafe { world.watch_memory(move || unmapped.try_recv().ok()) };
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// After memory in use by operations of this world is unmapped or remapped, the caller reports
    /// it before its next use, through `watch` or [`World::forget_memory`]. `watch` makes no call
    /// on this world.
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

    /// Drops the registrations at these addresses, before or after the memory is unmapped. Memory
    /// in use by an operation is dropped when the operation ends.
    ///
    /// ```
    /// let world = &strait::World::in_process(1)?[0];
    /// let buffer = vec![0_u8; 1 << 20];
    /// let start = buffer.as_ptr().addr();
    /// drop(buffer);
    /// world.forget_memory(start..start + (1 << 20))?;
    /// # Ok::<(), strait::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Network`] when the device does not release a registration. It is forgotten
    /// nevertheless.
    pub fn forget_memory(&self, memory: Range<usize>) -> Result<(), Error> {
        let (address, length) = (memory.start as u64, memory.len() as u64);
        let forgotten = self.with_network(|network| network.device().invalidate(address, length));
        forgotten.unwrap_or(Ok(())).map_err(|error| NetworkError::Device(error).into())
    }
}
