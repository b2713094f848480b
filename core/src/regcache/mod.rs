//! The registration cache: memory stays registered after its use, in case it is used again
//! (`[RdmaChannel04]` §5).
//!
//! [`Cached`] wraps any [`Hca`]. `register` answers from the cache if possible, and `deregister`
//! only ends the use. [`Cache`] decides by itself which registrations stay: the most recently used
//! ones, within limits of number and bytes. It never evicts a registration in use.
//!
//! Memory that a program unmaps or maps again must be *invalidated* first. The embedder does so by
//! [`Cached::invalidate`], or through a [`MemoryWatch`] that its own hooks fill. After that, no
//! request is answered from an earlier registration. Absent on purpose: hooks into an allocator or
//! the system; rounding to pages.

mod cache;
#[cfg(test)]
mod tests;

pub use cache::{Cache, CacheLimits, CacheStats};

use core::fmt;
use core::ptr::NonNull;

use crate::hca::{
    Access, Address, Capabilities, Completion, Connection, Hca, HcaError, PostError, Readiness,
    Region, Sge, WorkRequest,
};
use crate::memory::{Memory, OutOfMemory};

/// A source of reports about memory that has changed.
pub trait MemoryWatch {
    /// Returns the next report: address of the first byte, and length in bytes. The cache takes all
    /// reports before each registration.
    fn next(&mut self) -> Option<(u64, u64)>;

    /// Returns true if changes of these bytes are reported. The cache does not keep a registration
    /// of other bytes.
    fn covers(&self, _address: u64, _length: u64) -> bool {
        true
    }
}

/// A source without reports: all invalidation is explicit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl MemoryWatch for Unwatched {
    fn next(&mut self) -> Option<(u64, u64)> {
        None
    }
}

/// A device with a registration cache.
pub struct Cached<H, W, M: Memory> {
    hca: H,
    watch: W,
    cache: Cache<M>,
}

impl<H: Hca, W: MemoryWatch, M: Memory> Cached<H, W, M> {
    /// Creates a cache in front of `hca`.
    ///
    /// # Safety
    ///
    /// Memory that is registered through the cache, and that the watch covers, is invalidated
    /// before it is unmapped, whether it is deregistered or not. The invalidation may come later
    /// under two conditions. The device then accesses only the old pages, and no use of that memory
    /// begins in between.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if `memory` does not hold as many entries as the limits say.
    pub unsafe fn new(
        hca: H,
        watch: W,
        memory: M,
        limits: CacheLimits,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self { hca, watch, cache: Cache::new(memory, limits)? })
    }

    /// Forgets all registrations of `length` bytes at `address`. Those in use are deregistered at
    /// the end of their use.
    ///
    /// # Errors
    ///
    /// The errors of [`Hca::deregister`]. The cache has forgotten the memory nevertheless.
    pub fn invalidate(&mut self, address: u64, length: u64) -> Result<(), HcaError> {
        let mut result = Ok(());
        while let Some(region) = self.cache.invalidate(address, length) {
            result = result.and(self.hca.deregister(region));
        }
        result
    }

    /// Deregisters everything that is not in use.
    ///
    /// # Errors
    ///
    /// The errors of [`Hca::deregister`].
    pub fn clear(&mut self) -> Result<(), HcaError> {
        let mut result = Ok(());
        while let Some(region) = self.cache.evict() {
            result = result.and(self.hca.deregister(region));
        }
        result
    }

    /// Registers memory. Evicts registrations if the system refuses to pin more memory.
    ///
    /// # Safety
    ///
    /// The contract of [`Hca::register`] holds.
    unsafe fn register_now(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        loop {
            // SAFETY: the caller guarantees the contract of [`Hca::register`] (contract of
            // `register_now`).
            match unsafe { self.hca.register(base, length, access) } {
                Err(HcaError::Memory { bytes }) => match self.cache.evict() {
                    Some(region) => self.hca.deregister(region)?,
                    None => return Err(HcaError::Memory { bytes }),
                },
                registered => return registered,
            }
        }
    }

    /// Returns the cache's counters.
    #[must_use]
    pub const fn counts(&self) -> CacheStats {
        self.cache.counts()
    }

    /// Returns the source of reports.
    pub const fn watch(&mut self) -> &mut W {
        &mut self.watch
    }

    /// Returns the device, for queries.
    pub const fn device(&self) -> &H {
        &self.hca
    }

    /// Returns the device.
    pub const fn hca(&mut self) -> &mut H {
        &mut self.hca
    }
}

impl<H: Hca, W: MemoryWatch, M: Memory> Hca for Cached<H, W, M> {
    fn capabilities(&self) -> Capabilities {
        self.hca.capabilities()
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        while let Some((address, length)) = self.watch.next() {
            self.invalidate(address, length)?;
        }
        let address = base.addr().get() as u64;
        if !self.watch.covers(address, length as u64) {
            // SAFETY: the caller guarantees the contract of [`Hca::register`].
            return unsafe { self.register_now(base, length, access) };
        }
        if let Some(region) = self.cache.find(address, length as u64, access) {
            return Ok(region);
        }
        let access = self.cache.rights(address, length as u64, access);
        while let Some(region) = self.cache.make_room(length as u64) {
            self.hca.deregister(region)?;
        }
        // SAFETY: the caller guarantees the contract of [`Hca::register`]. While the region stays
        // in the cache after its use, the contract of `new` keeps its memory valid.
        let region = unsafe { self.register_now(base, length, access) }?;
        while let Some(region) = self.cache.superseded(&region, access) {
            self.hca.deregister(region)?;
        }
        self.cache.insert(region, access);
        Ok(region)
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        match self.cache.release(&region) {
            Some(region) => self.hca.deregister(region),
            None => Ok(()),
        }
    }

    fn retire(&mut self, region: Region) -> Result<(), HcaError> {
        let (address, length) = (region.base, region.length);
        self.deregister(region)?;
        self.invalidate(address, length)
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        self.hca.open(peer)
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        self.hca.connect(connection, address)
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        self.hca.close(connection)
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        // SAFETY: the caller guarantees the contract of [`Hca::post`].
        unsafe { self.hca.post(connection, request) }
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError> {
        // SAFETY: the caller guarantees the contract of [`Hca::post_receive`].
        unsafe { self.hca.post_receive(id, piece) }
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        self.hca.poll(into)
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        self.hca.arm()
    }

    fn copied(&mut self, bytes: usize) {
        self.hca.copied(bytes);
    }
}

impl<H: fmt::Debug, W, M: Memory> fmt::Debug for Cached<H, W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("hca", &self.hca).field("cache", &self.cache).finish()
    }
}
