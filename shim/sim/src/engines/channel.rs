//! A node's links as the channel of its engine.

use strait_core::buffer::Part;
use strait_core::engine::{Begun, Broken, Channel, ChannelProgress, Direct};
use strait_core::hca::{Access, Hca as _, Region};

use super::node::place;
use crate::SimDevice;
use crate::links::NodeLinks;
use crate::mesh::MeshSide;

/// The answer of a link that is not connected yet.
const NOT_YET: ChannelProgress = ChannelProgress { bytes: 0, holds: false };

/// The links of a node, by the engine's numbers of the ranks, and the node's clock.
pub(super) struct Port<'a>(pub(super) &'a mut NodeLinks, pub(super) u64);

impl Port<'_> {
    /// Returns the rank of the job that the engine knows by this number.
    const fn rank(&self, peer: u32) -> u32 {
        place(self.0.rank(), peer)
    }

    /// Returns the link to a peer and the device, if both ends are connected.
    fn ready(&mut self, peer: u32) -> Option<(&mut MeshSide, &mut SimDevice)> {
        let rank = self.rank(peer);
        self.0.ready(rank)
    }
}

impl Channel for Port<'_> {
    unsafe fn put(&mut self, peer: u32, from: &[Part]) -> Result<ChannelProgress, Broken> {
        let rank = self.rank(peer);
        self.0.meet(rank);
        let Some((side, device)) = self.ready(peer) else { return Ok(NOT_YET) };
        let link = &mut side.link;
        // SAFETY: the caller guarantees that the parts are valid as long as `Link::put` needs them
        // (contract of `put`).
        let bytes = unsafe { link.put(device, from) }.map_err(|error| Broken(error.sign()))?;
        Ok(ChannelProgress { bytes, holds: link.holds_put() })
    }

    unsafe fn get(&mut self, peer: u32, into: &[Part]) -> Result<ChannelProgress, Broken> {
        let Some((side, device)) = self.ready(peer) else { return Ok(NOT_YET) };
        let link = &mut side.link;
        // SAFETY: the caller guarantees that the parts are valid and unused as long as `Link::get`
        // needs them (contract of `get`).
        let bytes = unsafe { link.get(device, into) }.map_err(|error| Broken(error.sign()))?;
        Ok(ChannelProgress { bytes, holds: link.holds_get() })
    }

    unsafe fn register(&mut self, part: Part, access: Access) -> Option<Region> {
        // SAFETY: the caller guarantees that the part is valid until `release` (contract of
        // `register`).
        unsafe { self.0.device().register(part.base, part.length, access) }.ok()
    }

    fn release(&mut self, region: Region) {
        self.0.device().deregister(region).expect("a region is given back once");
    }

    unsafe fn transfer(&mut self, peer: u32, direct: &Direct) -> Result<Option<Begun>, Broken> {
        let Some((side, device)) = self.ready(peer) else { return Ok(None) };
        // SAFETY: the caller guarantees that the memory is valid until the transfer is done
        // (contract of `transfer`).
        unsafe { side.link.transfer(device, direct) }.map_err(|error| Broken(error.sign()))
    }

    fn is_done(&self, peer: u32, number: u64) -> bool {
        self.0.side(self.rank(peer)).is_some_and(|side| side.link.is_done(number))
    }

    fn is_linked(&self, peer: u32) -> bool {
        self.0.is_linked(self.rank(peer))
    }

    fn now(&self) -> u64 {
        self.1
    }

    fn close(&mut self, peer: u32) {
        unreachable!("no node ends, so no stream to rank {peer} does");
    }
}
