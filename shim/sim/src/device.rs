//! One rank's device.

use core::ptr::NonNull;
use std::sync::{Arc, Mutex};

use strait_core::hca::{
    Access, Address, Capabilities, Completion, Connection, Hca, HcaError, PostError, Readiness,
    Region, Sge, WorkRequest,
};

use super::end::{End, Standing};
use super::fabric::{SimFabric, State, lock};
use super::request::SimRequest;

/// A rank's access to the fabric. Clones are the same device.
#[derive(Clone, Debug)]
pub struct SimDevice {
    rank: u32,
    fabric: Arc<Mutex<State>>,
}

impl SimFabric {
    /// Returns the device of `rank`.
    #[must_use]
    pub fn device(&self, rank: u32) -> SimDevice {
        SimDevice::new(rank, Arc::clone(&self.0))
    }
}

impl SimDevice {
    pub(super) const fn new(rank: u32, fabric: Arc<Mutex<State>>) -> Self {
        Self { rank, fabric }
    }

    /// Returns the time of the rank's processor, in nanoseconds of virtual time. Without a
    /// [`Wire`](super::Wire) it stays zero.
    #[must_use]
    pub fn clock(&self) -> u64 {
        lock(&self.fabric).rank(self.rank).clock
    }

    /// Returns the number of registered regions.
    #[must_use]
    pub fn regions(&self) -> usize {
        lock(&self.fabric).rank(self.rank).regions.count()
    }

    /// Returns whether the event that [`Hca::arm`] requested has arrived.
    #[must_use]
    pub fn has_event(&self) -> bool {
        lock(&self.fabric).rank(self.rank).event
    }

    /// Takes the event that [`Hca::arm`] requested, if it has arrived.
    #[must_use]
    pub fn take_event(&self) -> bool {
        core::mem::take(&mut lock(&self.fabric).rank_mut(self.rank).event)
    }
}

impl Hca for SimDevice {
    fn capabilities(&self) -> Capabilities {
        lock(&self.fabric).model.capabilities
    }

    unsafe fn register(
        &mut self,
        base: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Region, HcaError> {
        let mut fabric = lock(&self.fabric);
        let limit = fabric.model.regions;
        let regions = &mut fabric.rank_mut(self.rank).regions;
        if regions.count() >= limit {
            return Err(HcaError::Memory { bytes: length as u64 });
        }
        Ok(regions.add(self.rank, base, length, access))
    }

    fn deregister(&mut self, region: Region) -> Result<(), HcaError> {
        let key = region.local_key;
        if lock(&self.fabric).rank_mut(self.rank).regions.remove(key) {
            Ok(())
        } else {
            Err(HcaError::UnknownRegion { key })
        }
    }

    fn open(&mut self, peer: u32) -> Result<(Connection, Address), HcaError> {
        let mut fabric = lock(&self.fabric);
        let ends = &mut fabric.rank_mut(self.rank).ends;
        ends.push(End::new(peer));
        let end = ends.len() as u32 - 1;
        let mut address = [0; Address::LENGTH];
        address[..4].copy_from_slice(&self.rank.to_le_bytes());
        address[4..8].copy_from_slice(&end.to_le_bytes());
        Ok((Connection(end), Address(address)))
    }

    fn connect(
        &mut self,
        connection: Connection,
        address: &Address,
    ) -> Result<Readiness, HcaError> {
        let mut fabric = lock(&self.fabric);
        let word = |at: usize| u32::from_le_bytes(address.0[at..at + 4].try_into().unwrap());
        let (peer, peer_end) = (word(0), word(4));
        let known = fabric.ranks.get(peer as usize);
        if known.is_none_or(|rank| rank.dead || rank.ends.len() <= peer_end as usize) {
            return Err(HcaError::Unreachable { peer });
        }
        let pending = fabric.rng.bool();
        let end = fabric
            .end_mut(self.rank, connection.0)
            .ok_or(HcaError::UnknownConnection { connection: connection.0 })?;
        if end.peer != peer {
            return Err(HcaError::Unreachable { peer: end.peer });
        }
        if pending {
            return Ok(Readiness::Pending);
        }
        end.state = Standing::Connected(peer_end);
        Ok(Readiness::Ready)
    }

    fn close(&mut self, connection: Connection) -> Result<(), HcaError> {
        let mut fabric = lock(&self.fabric);
        let end = fabric
            .end_mut(self.rank, connection.0)
            .filter(|end| end.state != Standing::Closed)
            .ok_or(HcaError::UnknownConnection { connection: connection.0 })?;
        end.state = Standing::Closed;
        end.queue.clear();
        Ok(())
    }

    unsafe fn post(
        &mut self,
        connection: Connection,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        let mut fabric = lock(&self.fabric);
        let Capabilities { depth, pieces, inline, message, .. } = fabric.model.capabilities;
        let refused = fabric.rng.u32(..100) < fabric.model.refuse;
        let end = fabric.end_mut(self.rank, connection.0).ok_or(PostError::NotConnected)?;
        match end.state {
            Standing::Open | Standing::Closed => return Err(PostError::NotConnected),
            Standing::Broken => return Err(PostError::Broken),
            Standing::Connected(_) => {}
        }
        if refused || end.posted - end.freed >= u64::from(depth) {
            return Err(PostError::Full);
        }
        // SAFETY: the caller guarantees that the pieces are valid until the request completes
        // (contract of `post`).
        let mut posted = unsafe { SimRequest::new(end.posted + 1, request) };
        let (found, length) = (posted.pieces(), posted.length() as u64);
        if found > pieces as usize {
            return Err(PostError::Pieces { found, limit: pieces });
        }
        let limit = if request.inline { u64::from(inline) } else { message };
        if length > limit {
            return Err(PostError::Length { found: length, limit });
        }
        end.posted += 1;
        let peer = end.peer;
        let due = fabric.leave(self.rank, peer, &posted);
        posted.not_before = due;
        fabric.ranks[self.rank as usize].ends[connection.0 as usize].queue.push_back(posted);
        fabric.schedule_step(self.rank, connection.0, due);
        Ok(())
    }

    unsafe fn post_receive(&mut self, id: u64, piece: Sge) -> Result<(), PostError> {
        let mut fabric = lock(&self.fabric);
        let limit = fabric.model.capabilities.receives as usize;
        let receives = &mut fabric.rank_mut(self.rank).receives;
        if receives.len() >= limit {
            return Err(PostError::Full);
        }
        receives.push_back((id, piece));
        Ok(())
    }

    fn poll(&mut self, into: &mut [Completion]) -> Result<usize, HcaError> {
        let mut fabric = lock(&self.fabric);
        fabric.spend(self.rank, |wire| wire.poll);
        let rank = fabric.rank_mut(self.rank);
        let count = into.len().min(rank.completions.len());
        for (slot, reported) in into.iter_mut().zip(rank.completions.drain(..count)) {
            *slot = reported.completion;
            if let Some(end) = rank.ends.get_mut(reported.completion.connection.0 as usize) {
                end.freed = end.freed.max(reported.frees);
            }
        }
        Ok(count)
    }

    fn arm(&mut self) -> Result<(), HcaError> {
        lock(&self.fabric).rank_mut(self.rank).armed = true;
        Ok(())
    }

    fn copied(&mut self, bytes: usize) {
        lock(&self.fabric).copy(self.rank, bytes);
    }
}
