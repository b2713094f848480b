//! What a member gives to a window that spans nodes besides its part: registrations, and a lane to each member.

use core::ptr::NonNull;

use strait_core::hca::{Access, Address, HcaError, Region};
use strait_core::layout::Corrupt;
use strait_core::layout::{Call, Wait};
use strait_core::progress::{Channel, Part as Buffer};
use strait_core::reduce::Op;
use strait_core::rma::{Block, ErrandMemory, LENT, STRIPE, Station, Stripes, Trays};

use super::card::{Card, Registered, Spot};
use super::far::Far;
use super::passive::Opening;
use super::{Window, WindowError};
use crate::network::{Guest, HandlerId, JobNetwork, LaneId, NetworkError};
use crate::segment::Mapping;
use crate::{Error, Group, Rank, World};

/// Goes back by [`Beyond::give_back`].
#[derive(Debug)]
pub(super) struct Beyond {
    /// By place, this member's to itself among them.
    lanes: Vec<LaneId>,
    /// Of the part, unless that is empty; of the block; of the memory; of the trays.
    regions: Vec<Region>,
    /// What others know of them.
    registered: Registered,
    /// The local key of the memory.
    key: u32,
    /// The scratch, and then the slots of the lanes.
    memory: Mapping,
    /// The local key of the trays.
    trays_key: u32,
    /// See [`ErrandMemory`].
    trays: Mapping,
    handler: Option<HandlerId>,
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
        let trays = Mapping::private(ErrandMemory { members: ranks.len() }.bytes())?;
        let mut made = Self {
            lanes: Vec::new(),
            regions: Vec::new(),
            registered: Registered::default(),
            key: 0,
            memory,
            trays_key: 0,
            trays,
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
        let own = Buffer { base: self.memory.base, length: STRIPE + ranks.len() * LENT };
        let layout = ErrandMemory { members: ranks.len() };
        let trays = Buffer { base: self.trays.base, length: layout.bytes() };
        self.key = self.register(network, own, Access::LOCAL)?.local_key;
        self.registered.block = Spot::of(block, &self.register(network, block, Access::ALL)?);
        let region = self.register(network, trays, Access::ALL)?;
        (self.trays_key, self.registered.trays) = (region.local_key, Spot::of(trays, &region));
        if part.length > 0 {
            self.registered.part = Spot::of(part, &self.register(network, part, Access::ALL)?);
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

    /// Has the handler work for this member, in `place`, whose block is `block`. `cards` are all members'.
    ///
    /// # Safety
    ///
    /// The block is valid until [`Beyond::give_back`].
    pub(super) unsafe fn open_handler(
        &mut self,
        world: &World,
        place: u32,
        block: Block,
        cards: &[Card],
    ) -> Result<(), Error> {
        let members = cards.len();
        let word = Block::acknowledgement_offset(members as u32, place);
        let layout = ErrandMemory { members };
        let answers = layout.answers(place as usize);
        let guest = |(card, lane): (&Card, &LaneId)| {
            let Registered { block, trays, .. } = card.beyond;
            Ok(Guest::new(*lane, trays.remote()?.after(answers), block.remote()?.after(word)))
        };
        let guests: Result<Vec<_>, Corrupt> = cards.iter().zip(&self.lanes).map(guest).collect();
        let stripes = if Opening::have_atomics(cards) {
            let block = self.registered.block.remote()?;
            Stripes::Devices { block, own: self.lanes[place as usize] }
        } else {
            Stripes::Processors(block)
        };
        let station = Station {
            rank: world.rank(),
            trays: self.trays.base,
            // SAFETY: within the memory, and aligned to 8 bytes.
            words: unsafe { self.trays.base.add(layout.words()) }.cast(),
            key: self.trays_key,
            stripes,
        };
        let guests = guests?;
        // SAFETY: by the contract; the trays stay until this is given back, and others reach them by their devices.
        self.handler =
            world.with_network(|network| unsafe { network.open_handler(station, guests) });
        Ok(())
    }

    /// Has errands done in this memory of the member's, too, which they call `name`.
    ///
    /// # Safety
    ///
    /// The memory is valid until it is taken away or this is given back, and reached through raw pointers alone.
    pub(super) unsafe fn add_ground(&self, world: &World, name: u64, ground: Buffer) {
        let Some(handler) = self.handler else { return };
        // SAFETY: by the contract.
        world.with_network(|network| unsafe { network.add_ground(handler, name, ground) });
    }

    /// Takes a memory away.
    pub(super) fn remove_ground(&self, world: &World, name: u64) {
        let Some(handler) = self.handler else { return };
        world.with_network(|network| network.remove_ground(handler, name));
    }

    /// This member's trays at another.
    pub(super) fn trays_for(&self, far: &Far) -> Trays {
        let (layout, place) = (ErrandMemory { members: self.lanes.len() }, far.place as usize);
        // SAFETY: within the memory.
        let at = |offset| unsafe { self.trays.base.add(offset) };
        let (images, answers) = (at(layout.images(place)), at(layout.answers(place)));
        Trays { images, answers, key: self.trays_key, there: far.trays }
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
    /// it will hear so. Nor is that this rank's end cannot be connected to itself, as on iWARP: only atomics go there, and iWARP has
    /// none.
    pub(super) fn connect(&self, world: &World, ends: &[(Rank, Address)]) -> Result<(), Error> {
        for (&lane, (rank, address)) in self.lanes.iter().zip(ends) {
            let connected = world.wait_until(
                || Wait::on(Call::Connect, *rank),
                || {
                    let connected = world.with_network(|it| it.connect_lane(lane, address))?;
                    if connected == Ok(false) && world.turn().gone(*rank).is_some() {
                        world.with_network(|network| network.break_lane(lane));
                        return Some(Ok(()));
                    }
                    match connected {
                        Ok(connected) => connected.then_some(Ok(())),
                        Err(error) if error.sign().is_some() || *rank == world.rank() => {
                            Some(Ok(()))
                        }
                        Err(error) => Some(Err(WindowError::Device { rank: *rank, error })),
                    }
                },
            );
            connected??;
        }
        Ok(())
    }

    /// Closes the lanes and gives the registrations back. Nobody reaches them any more.
    pub(super) fn give_back(self, world: &World) {
        world.with_network(|network| {
            self.handler.into_iter().for_each(|handler| network.close_handler(handler));
            self.lanes.into_iter().for_each(|lane| network.close_lane(lane));
            self.regions.into_iter().for_each(|region| network.release(region));
        });
    }

    pub(super) fn lane(&self, place: usize) -> LaneId {
        self.lanes[place]
    }

    pub(super) const fn registered(&self) -> Registered {
        self.registered
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
