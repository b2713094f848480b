//! What a member gives to a window that spans nodes besides its part: registrations, and a lane to each member.

use core::ptr::NonNull;

use strait_core::hca::{Access, Address, HcaError, Region, Remote};
use strait_core::progress::{Channel, Part as Buffer};
use strait_core::reduce::Op;
use strait_core::rma::{LENT, STRIPE};

use super::{Window, WindowError};
use crate::network::{JobNetwork, LaneId, NetworkError};
use crate::segment::Mapping;
use crate::{Error, Group, Rank, World};

/// Goes back by [`Beyond::give_back`].
#[derive(Debug)]
pub(super) struct Beyond {
    /// By place, this member's to itself among them.
    lanes: Vec<LaneId>,
    /// Of the part, unless that is empty; of the block; of the memory.
    regions: Vec<Region>,
    part: Remote,
    block: Remote,
    /// The local key of the memory.
    key: u32,
    /// The scratch, and then the slots of the lanes.
    memory: Mapping,
}

impl Beyond {
    /// Registers this member's part and block, and opens a lane to each of `ranks`. The addresses are for them.
    pub(super) fn open(
        world: &World,
        ranks: &[Rank],
        part: Buffer,
        block: Buffer,
    ) -> Result<(Self, Vec<Address>), Error> {
        let memory = Mapping::private(STRIPE + ranks.len() * LENT)?;
        let nothing = Remote { address: 0, key: 0 };
        let (lanes, regions) = (Vec::new(), Vec::new());
        let mut made = Self { lanes, regions, part: nothing, block: nothing, key: 0, memory };
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
        let own = Buffer { base: self.memory.base, length: STRIPE + ranks.len() * LENT };
        self.key = self.register(network, own, Access::LOCAL)?.local_key;
        self.block = remote(block, &self.register(network, block, Access::ALL)?);
        if part.length > 0 {
            self.part = remote(part, &self.register(network, part, Access::ALL)?);
        }
        let mut addresses = Vec::new();
        for (place, rank) in ranks.iter().enumerate() {
            // SAFETY: the memory holds the scratch and `LENT` bytes for each member.
            let slots = unsafe { own.base.add(STRIPE + place * LENT) };
            // SAFETY: registered for this rank to read and write, and this lane's alone until it is closed.
            let (lane, address) = unsafe { network.open_lane(*rank, slots, self.key) }?;
            self.lanes.push(lane);
            addresses.push(address);
        }
        Ok(addresses)
    }

    fn register(
        &mut self,
        network: &mut JobNetwork,
        memory: Buffer,
        access: Access,
    ) -> Result<Region, HcaError> {
        // SAFETY: the memory is the window's, which keeps it until all members have freed that, or nobody has it.
        let region = unsafe { network.register(memory, access) };
        let region = region.ok_or(HcaError::Memory { bytes: memory.length as u64 })?;
        self.regions.push(region);
        Ok(region)
    }

    /// Connects the lanes to the ends that the members have for this one. One that has died since is no error: whoever reaches for
    /// it will hear so.
    pub(super) fn connect(&self, world: &World, ends: &[(Rank, Address)]) -> Result<(), Error> {
        for (&lane, (rank, address)) in self.lanes.iter().zip(ends) {
            let connected = world.wait_until(|| {
                let connected = world.with_network(|it| it.connect_lane(lane, address))?;
                if connected == Ok(false) && world.turn().gone(*rank).is_some() {
                    world.with_network(|network| network.break_lane(lane));
                    return Some(Ok(()));
                }
                match connected {
                    Ok(connected) => connected.then_some(Ok(())),
                    Err(error) if error.is_of_the_gone() => Some(Ok(())),
                    Err(error) => Some(Err(WindowError::Device { rank: *rank, error })),
                }
            });
            connected??;
        }
        Ok(())
    }

    /// Closes the lanes and gives the registrations back. Nobody reaches them any more.
    pub(super) fn give_back(self, world: &World) {
        world.with_network(|network| {
            self.lanes.into_iter().for_each(|lane| network.close_lane(lane));
            self.regions.into_iter().for_each(|region| network.release(region));
        });
    }

    pub(super) fn lane(&self, place: usize) -> LaneId {
        self.lanes[place]
    }

    pub(super) const fn part(&self) -> Remote {
        self.part
    }

    pub(super) const fn block(&self) -> Remote {
        self.block
    }
}

impl Window<'_> {
    /// [`STRIPE`] registered bytes of this member's own, and their key.
    pub(super) fn scratch(&self) -> Option<(NonNull<u8>, u32)> {
        self.own.beyond.as_ref().map(|beyond| (beyond.memory.base, beyond.key))
    }
}

impl Group<'_> {
    /// Every member's addresses for this one, once all have opened theirs: `own` are this member's for all of them.
    pub(super) fn exchange_addresses(
        &self,
        own: &[Address],
    ) -> Result<Vec<(Rank, Address)>, Error> {
        let (members, place) = (self.ranks().len(), self.place() as usize);
        let mut table = vec![0_u64; members * members * WORDS];
        let (addresses, _) = table.as_chunks_mut::<WORDS>();
        for (to, address) in own.iter().enumerate() {
            addresses[place * members + to] = bytemuck::must_cast(address.0);
        }
        self.allreduce(&mut table, Op::BitOr)?;
        let (addresses, _) = table.as_chunks::<WORDS>();
        let for_this = self.ranks().iter().enumerate().map(|(from, rank)| {
            (*rank, Address(bytemuck::must_cast(addresses[from * members + place])))
        });
        Ok(for_this.collect())
    }
}

/// Words of an address.
const WORDS: usize = Address::LENGTH / size_of::<u64>();

fn remote(memory: Buffer, region: &Region) -> Remote {
    Remote { address: memory.base.addr().get() as u64, key: region.remote_key }
}
