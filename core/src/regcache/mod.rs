//! The registration cache: memory stays registered after its use, in case it is used again (`[RdmaChannel04]` §5).
//!
//! [`Cached`] goes around any [`Hca`]: `register` answers from the cache where it can, `deregister` only ends the use.
//! Which registrations stay is decided by [`Cache`], which asks nobody anything: by last use, within limits of number
//! and bytes. One in use is never given up.
//!
//! Memory that a program unmaps, or that is mapped anew, has to be *invalidated* first: by [`Cached::invalidate`], or
//! through a [`Watch`] that the embedder's own hooks fill. After that no use is answered from what was registered
//! before. Absent on purpose: hooks into an allocator or the system; rounding to pages.

mod cache;
#[cfg(test)]
mod tests;

pub use cache::{Cache, Counts, Limits};

use core::fmt;
use core::ptr::NonNull;

use crate::hca::{
    Access, Address, Capabilities, Completion, Connection, Hca, HcaError, Piece, PostError,
    Readiness, Region, WorkRequest,
};
use crate::memory::{Memory, OutOfMemory};

/// Where the embedder reports memory that is not what it was.
pub trait Watch {
    /// The next report: address of the first byte and length, bytes. Asked before each registration until there is none.
    fn next(&mut self) -> Option<(u64, u64)>;

    /// Whether it would be reported of these bytes. A registration of others is not kept.
    fn covers(&self, _address: u64, _length: u64) -> bool {
        true
    }
}

/// Nobody watches: all invalidation is explicit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn next(&mut self) -> Option<(u64, u64)> {
        None
    }
}

/// A device whose registrations are kept.
pub struct Cached<H, W, M: Memory> {
    hca: H,
    watch: W,
    cache: Cache<M>,
}

impl<H: Hca, W: Watch, M: Memory> Cached<H, W, M> {
    /// A cache in front of `hca`.
    ///
    /// # Safety
    ///
    /// Memory that was registered through the cache, and that the watch covers, is invalidated before it is unmapped, whether it
    /// is deregistered or not. It may be later where the device then reaches nothing but the pages that were there, and no use of
    /// that memory begins in between.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: `memory` does not hold as many entries as the limits say.
    pub unsafe fn new(hca: H, watch: W, memory: M, limits: Limits) -> Result<Self, OutOfMemory> {
        Ok(Self { hca, watch, cache: Cache::new(memory, limits)? })
    }

    /// Forgets what is registered of `length` bytes at `address`. What is in use is deregistered at the end of its use.
    ///
    /// # Errors
    ///
    /// Those of [`Hca::deregister`]. The cache has forgotten the memory nevertheless.
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
    /// Those of [`Hca::deregister`].
    pub fn clear(&mut self) -> Result<(), HcaError> {
        let mut result = Ok(());
        while let Some(region) = self.cache.evict() {
            result = result.and(self.hca.deregister(region));
        }
        result
    }

    /// Registers, and gives up what is kept where the system lets no more memory be pinned.
    ///
    /// # Safety
    ///
    /// As for [`Hca::register`].
    unsafe fn register_now(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        loop {
            // SAFETY: by the contract.
            match unsafe { self.hca.register(base, length, access) } {
                Err(HcaError::Memory { bytes }) => match self.cache.evict() {
                    Some(region) => self.hca.deregister(region)?,
                    None => return Err(HcaError::Memory { bytes }),
                },
                registered => return registered,
            }
        }
    }

    /// What the cache has done.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.cache.counts()
    }

    /// Who reports.
    pub const fn watch(&mut self) -> &mut W {
        &mut self.watch
    }

    /// The device, to be asked about.
    pub const fn device(&self) -> &H {
        &self.hca
    }

    /// The device.
    pub const fn hca(&mut self) -> &mut H {
        &mut self.hca
    }
}

impl<H: Hca, W: Watch, M: Memory> Hca for Cached<H, W, M> {
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
            // SAFETY: by the contract.
            return unsafe { self.register_now(base, length, access) };
        }
        if let Some(region) = self.cache.find(address, length as u64, access) {
            return Ok(region);
        }
        let access = self.cache.rights(address, length as u64, access);
        while let Some(region) = self.cache.make_room(length as u64) {
            self.hca.deregister(region)?;
        }
        // SAFETY: by the contract, and by that of `new` for as long as the region stays in the cache.
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
        // SAFETY: by the contract.
        unsafe { self.hca.post(connection, request) }
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Piece) -> Result<(), PostError> {
        // SAFETY: by the contract.
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
