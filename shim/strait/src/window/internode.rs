//! The resources that a member gives to a window that spans nodes besides its part: registrations,
//! and a lane to each member.

use core::cell::RefCell;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use strait_core::buffer::Part as Buffer;
use strait_core::engine::{Channel, Gone};
use strait_core::hca::{Access, Address, HcaError, Region};
use strait_core::layout::{Call, Corrupt, Wait};
use strait_core::rma::{AmMemory, OperandBuffers, STRIPE, Station, Stripes, WindowBlock};
use strait_platform::Rank;
use strait_platform::segment::Mapping;

use super::part::RemoteMember;
use super::part_descriptor::{MemberRegions, PartDescriptor, RegionAddress};
use crate::network::resources::JobNetwork;
use crate::network::{HandlerId, LaneId, LaneOrigin, RegisteredMemory};
use crate::{Error, NetworkError, WindowError, World};

/// Resources of a member for its device. [`InternodeMemory::give_back`] releases them.
#[derive(Debug)]
pub(super) struct InternodeMemory {
    /// Lanes by place, with this member's lane to itself.
    lanes: Vec<LaneId>,
    /// Regions of the part, unless that is empty, of the block, of the memory, and of the operand
    /// buffers.
    regions: Vec<Region>,
    /// Addresses and keys of the regions, for other members.
    registered: MemberRegions,
    /// Local key of the memory.
    key: u32,
    /// The scratch.
    memory: Mapping,
    /// Local key of the operand buffers and of the answers.
    operand_buffers_key: u32,
    /// The memory that [`AmMemory`] lays out.
    operand_buffers: Mapping,
    /// The images of this member's operand buffers at the members to which it has sent active
    /// messages, by place.
    images: RefCell<BTreeMap<u32, RegisteredMemory>>,
    handler: Option<HandlerId>,
}

impl InternodeMemory {
    /// Registers this member's part and block, and opens a lane to each of `ranks`. Returns the
    /// lanes' addresses, which are for those ranks.
    pub(super) fn open(
        world: &World,
        ranks: &[Rank],
        part: Buffer,
        block: Buffer,
    ) -> Result<(Self, Vec<Address>), Error> {
        let memory = Mapping::private(STRIPE)?;
        let operand_buffers = Mapping::private(AmMemory { members: ranks.len() }.bytes())?;
        let mut made = Self {
            lanes: Vec::new(),
            regions: Vec::new(),
            registered: MemberRegions::default(),
            key: 0,
            memory,
            operand_buffers_key: 0,
            operand_buffers,
            images: RefCell::default(),
            handler: None,
        };
        let filled = world.with_network(|network| made.fill(network, ranks, part, block));
        match filled.ok_or(WindowError::OtherNode { rank: world.rank() })? {
            Ok(addresses) => Ok((made, addresses)),
            Err(error) => {
                made.give_back(world);
                Err(NetworkError::Device(error).into())
            }
        }
    }

    fn fill(
        &mut self,
        network: &mut JobNetwork,
        ranks: &[Rank],
        part: Buffer,
        block: Buffer,
    ) -> Result<Vec<Address>, HcaError> {
        let own = Buffer { base: self.memory.base(), length: STRIPE };
        let layout = AmMemory { members: ranks.len() };
        let operand_buffers = Buffer { base: self.operand_buffers.base(), length: layout.bytes() };
        self.key = self.register(network, own, Access::LOCAL)?.local_key;
        self.registered.block =
            RegionAddress::of(block, &self.register(network, block, Access::ALL)?);
        let region = self.register(network, operand_buffers, Access::ALL)?;
        (self.operand_buffers_key, self.registered.operand_buffers) =
            (region.local_key, RegionAddress::of(operand_buffers, &region));
        if part.length > 0 {
            self.registered.part =
                RegionAddress::of(part, &self.register(network, part, Access::ALL)?);
        }
        let mut addresses = Vec::new();
        for rank in ranks {
            let (lane, address) = network.open_lane(*rank)?;
            self.lanes.push(lane);
            addresses.push(address);
        }
        Ok(addresses)
    }

    /// Opens the handler for this member, in `place`, with its block `block`. `descriptors` are
    /// those of all members.
    ///
    /// # Safety
    ///
    /// The block is valid until [`InternodeMemory::give_back`].
    pub(super) unsafe fn open_handler(
        &mut self,
        world: &World,
        place: u32,
        block: WindowBlock,
        descriptors: &[PartDescriptor],
    ) -> Result<(), Error> {
        let members = descriptors.len();
        let word = WindowBlock::acknowledgement_offset(members as u32, place);
        let layout = AmMemory { members };
        let answers = layout.answers(place as usize);
        let origin = |(descriptor, lane): (&PartDescriptor, &LaneId)| {
            let MemberRegions { block, operand_buffers, .. } = descriptor.internode;
            Ok(LaneOrigin::new(
                *lane,
                operand_buffers.remote()?.after(answers),
                block.remote()?.after(word),
            ))
        };
        let origins: Result<Vec<_>, Corrupt> =
            descriptors.iter().zip(&self.lanes).map(origin).collect();
        let stripes = if PartDescriptor::have_atomics(descriptors) {
            let block = self.registered.block.remote()?;
            Stripes::Devices { block, own: self.lanes[place as usize] }
        } else {
            Stripes::Processors(block)
        };
        let station = Station {
            rank: world.rank(),
            operand_buffers: self.operand_buffers.base(),
            // SAFETY: the words lie in the memory, and are aligned to 8 bytes.
            words: unsafe { self.operand_buffers.base().add(layout.words()) }.cast(),
            key: self.operand_buffers_key,
            stripes,
        };
        let origins = origins?;
        // SAFETY: the caller guarantees that the block stays valid (contract of `open_handler`).
        // The operand buffers stay until `give_back`, and other members reach them only by their
        // devices.
        self.handler =
            world.with_network(|network| unsafe { network.open_handler(station, origins) });
        Ok(())
    }

    /// Lets active messages access this memory of the member too, under the name `name`.
    ///
    /// # Safety
    ///
    /// The memory is valid until [`InternodeMemory::remove_ground`] or
    /// [`InternodeMemory::give_back`], and only raw pointers reach it.
    pub(super) unsafe fn add_ground(&self, world: &World, name: u64, ground: Buffer) {
        let Some(handler) = self.handler else { return };
        // SAFETY: the caller guarantees that the memory stays valid (contract of `add_ground`).
        world.with_network(|network| unsafe { network.add_ground(handler, name, ground) });
    }

    /// Removes a memory from those that active messages access.
    pub(super) fn remove_ground(&self, world: &World, name: u64) {
        let Some(handler) = self.handler else { return };
        world.with_network(|network| network.remove_ground(handler, name));
    }

    /// Returns this member's operand buffers at another member. The first call for a member makes
    /// their images.
    pub(super) fn operand_buffers_for(
        &self,
        world: &World,
        remote: &RemoteMember,
    ) -> Result<OperandBuffers, Error> {
        let (layout, place) = (AmMemory { members: self.lanes.len() }, remote.place as usize);
        // SAFETY: the layout's offsets lie in the memory.
        let answers = unsafe { self.operand_buffers.base().add(layout.answers(place)) };
        let mut all = self.images.borrow_mut();
        let images = match all.entry(remote.place) {
            Entry::Occupied(images) => images.into_mut(),
            Entry::Vacant(place) => {
                let make = |network: &mut JobNetwork| {
                    network.register_new(AmMemory::IMAGES, Access::LOCAL_READ)
                };
                let made = world.with_network(make);
                let made = made.ok_or(WindowError::OtherNode { rank: remote.rank })?;
                place.insert(made.map_err(NetworkError::Device)?)
            }
        };
        let (images, key) = images.start();
        Ok(OperandBuffers { images, answers, key, there: remote.operand_buffers })
    }

    fn register(
        &mut self,
        network: &mut JobNetwork,
        memory: Buffer,
        access: Access,
    ) -> Result<Region, HcaError> {
        // SAFETY: the memory belongs to the window. The window keeps it until all members have
        // freed it, or no member has it.
        let region = unsafe { network.register(memory, access) };
        let region = region.ok_or(HcaError::Memory { bytes: memory.length as u64 })?;
        self.regions.push(region);
        Ok(region)
    }

    /// Connects the lanes to the ends that the members have for this one. A member that has died
    /// or given up the window since is no error here: operations on it, or the members' agreement,
    /// report it. A member to which no connection can be made waits for its end of the lane, so all
    /// communication with it ends, which it learns of. On iWARP this rank's end cannot be connected
    /// to itself. That is no error either, since only atomics use that lane, and iWARP has none.
    pub(super) fn connect(&self, world: &World, ends: &[(Rank, Address)]) -> Result<(), Error> {
        for (&lane, (rank, address)) in self.lanes.iter().zip(ends) {
            let wait = || Wait::on(Call::Connect, *rank);
            let is_settled = || settle_lane(world, lane, *rank, address).transpose();
            world.wait_until(wait, is_settled)??;
        }
        Ok(())
    }

    /// Closes the lanes and releases the registrations. No member may reach them any more.
    pub(super) fn give_back(self, world: &World) {
        world.with_network(|network| {
            self.handler.into_iter().for_each(|handler| network.close_handler(handler));
            self.lanes.into_iter().for_each(|lane| network.close_lane(lane));
            self.images.into_inner().into_values().for_each(|images| network.retire(images));
            self.regions.into_iter().for_each(|region| network.release(region));
        });
    }

    pub(super) fn lane(&self, place: usize) -> LaneId {
        self.lanes[place]
    }

    pub(super) const fn registered(&self) -> MemberRegions {
        self.registered
    }

    /// Returns [`STRIPE`] registered bytes of this member, and their local key.
    pub(super) const fn scratch(&self) -> (NonNull<u8>, u32) {
        (self.memory.base(), self.key)
    }
}

/// Takes the next step of [`InternodeMemory::connect`] for one lane. Returns `Some` when the lane
/// is connected, or the member is gone.
fn settle_lane(
    world: &World,
    lane: LaneId,
    rank: Rank,
    address: &Address,
) -> Result<Option<()>, Error> {
    let is_settled = match world.with_network(|network| network.connect_lane(lane, address)) {
        None => false,
        Some(Ok(true)) => true,
        Some(Ok(false)) => {
            let is_gone = world.lock_progress().gone(rank).is_some();
            if is_gone {
                world.with_network(|network| network.break_lane(lane));
            }
            is_gone
        }
        Some(Err(_)) if rank == world.rank() => true,
        // A member closes its end when it learns that a third one died before all had exchanged
        // their addresses. It lives, and the next step tells of that death.
        Some(Err(error)) if error.has_closed_end() => {
            world.with_network(|network| network.break_lane(lane));
            true
        }
        Some(Err(error)) => match error.sign() {
            Some(cause) => world.lock_progress().peer_gone(rank, Gone::Failed(cause))?,
            None => return Err(WindowError::Device { rank, error }.into()),
        },
    };
    Ok(is_settled.then_some(()))
}

#[cfg(test)]
mod tests;
