//! What a member says of its part while a window is made.

use core::cell::Cell;
use core::ptr::NonNull;

use strait_core::hca::{Region, Remote};
use strait_core::layout::{Corrupt, Segment};
use strait_core::progress::Part as Buffer;
use strait_core::rma::{Block, ErrandMemory};
use strait_core::sync::CACHE_LINE;

use super::beyond::Beyond;
use super::create::Own;
use super::far::Far;
use super::part::{Part, Reach};
use crate::{Error, Group, Rank};

/// It could make no part.
pub(super) const FAILED: u64 = 1;
/// Its part lies in its heap.
pub(super) const MAPPED: u64 = 2;
/// Its part is memory of its own.
pub(super) const PRIVATE: u64 = 3;

/// It attaches what it wants to.
pub(super) const DYNAMIC: u64 = 4;

/// It promises [`Accumulates::Single`](super::Accumulates::Single).
pub(super) const SINGLE: u64 = 1;

/// What a member says of its part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Card {
    pub(super) kind: u64,
    /// Distance from the start of its heap; or an address in its memory.
    pub(super) place: u64,
    pub(super) length: u64,
    pub(super) unit: u64,
    /// Its block, as a distance from the start of its heap.
    pub(super) block: u64,
    /// Whether it promises something of its accumulates.
    pub(super) accumulates: u64,
    /// What it has for devices, if the window spans nodes.
    pub(super) beyond: Registered,
    /// What it says of its locks: see [`Opening::words`](super::passive::Opening::words).
    pub(super) lock: u64,
    pub(super) desk: u64,
    /// Its name for the window where messages are for that, and its design: see
    /// [`BaselineId::word`](super::send_recv::BaselineId::word).
    pub(super) baseline: u64,
}

/// What a member has for the devices of others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registered {
    pub(super) part: Spot,
    pub(super) block: Spot,
    pub(super) trays: Spot,
}

/// A place in registered memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spot {
    address: u64,
    key: u64,
}

impl Spot {
    pub(super) fn of(memory: Buffer, region: &Region) -> Self {
        Self { address: memory.base.addr().get() as u64, key: region.remote_key.into() }
    }

    const fn words(self) -> [u64; 2] {
        [self.address, self.key]
    }

    const fn at([address, key]: [u64; 2]) -> Self {
        Self { address, key }
    }

    pub(super) fn remote(self) -> Result<Remote, Corrupt> {
        let Self { address, key } = self;
        let key = u32::try_from(key).map_err(|_| Corrupt::Length { found: key, max: NO_KEY })?;
        Ok(Remote { address, key })
    }
}

/// What no key is greater than.
const NO_KEY: u64 = u32::MAX as u64;

impl Card {
    /// Words of a card.
    pub(super) const WORDS: usize = 15;

    pub(super) fn failed() -> Self {
        Self { kind: FAILED, ..Self::default() }
    }

    pub(super) const fn words(self) -> [u64; Self::WORDS] {
        let Self {
            kind,
            place,
            length,
            unit,
            block: own,
            accumulates,
            beyond,
            lock,
            desk,
            baseline,
        } = self;
        let Registered { part, block, trays } = beyond;
        let ([a, b], [c, d], [e, f]) = (part.words(), block.words(), trays.words());
        [kind, place, length, unit, own, accumulates, a, b, c, d, e, f, lock, desk, baseline]
    }

    pub(super) const fn of(words: [u64; Self::WORDS]) -> Self {
        let [kind, place, length, unit, own, accumulates, a, b, c, d, e, f, lock, desk, baseline] =
            words;
        let (part, block, trays) = (Spot::at([a, b]), Spot::at([c, d]), Spot::at([e, f]));
        let beyond = Registered { part, block, trays };
        Self { kind, place, length, unit, block: own, accumulates, beyond, lock, desk, baseline }
    }

    /// The part of `rank`, in `place`, as this process reaches it.
    pub(super) fn part(
        &self,
        group: &Group<'_>,
        place: usize,
        rank: Rank,
        own: &Own,
    ) -> Result<Part, Error> {
        let world = group.world();
        let segment: Segment = world.segment();
        let count = |found| usize::try_from(found).map_err(|_| self.corrupt(found));
        let (length, unit) = (count(self.length)?, count(self.unit)?);
        let is_elsewhere = world.node_of(rank) != Some(world.node());
        let reach = match self.kind {
            MAPPED | PRIVATE if self.goes_by_messages() && rank != world.rank() => {
                Reach::Messages { place: place as u32, address: self.place }
            }
            MAPPED | PRIVATE if is_elsewhere => Reach::Device(self.beyond.part.address),
            MAPPED => Reach::Mapped(segment.heap_place(rank, self.place, length)?),
            DYNAMIC => Reach::Mapped(NonNull::dangling()),
            PRIVATE if rank == world.rank() => Reach::Mapped(own.base),
            PRIVATE => Reach::Process(self.place),
            found => return Err(Corrupt::Place { found: found as u32 }.into()),
        };
        let block = if is_elsewhere { None } else { Some(self.block(group, rank)?) };
        let far = own.beyond.as_ref().map(|beyond| self.far(group, place, rank, beyond));
        let completes_later = far.is_some() || matches!(reach, Reach::Messages { .. });
        let (reach, (errands, awaited)) = (Cell::new(reach), Default::default());
        let is_dynamic = self.kind == DYNAMIC;
        Ok(Part {
            rank,
            reach,
            is_dynamic,
            length,
            unit,
            block,
            far: far.transpose()?,
            errands,
            completes_later,
            awaited,
        })
    }

    /// What the device reaches of `rank`, in `place`.
    fn far(
        &self,
        group: &Group<'_>,
        place: usize,
        rank: Rank,
        own: &Beyond,
    ) -> Result<Far, Corrupt> {
        let Registered { part, block, trays } = self.beyond;
        let layout = ErrandMemory { members: group.ranks().len() };
        let trays = trays.remote()?.after(layout.trays(group.place() as usize));
        let (lane, part, block) = (own.lane(place), Cell::new(part.remote()?), block.remote()?);
        let within = Cell::default();
        Ok(Far { rank, place: place as u32, lane, part, within, block, trays })
    }

    /// The block of `rank`, which is on this node.
    fn block(&self, group: &Group<'_>, rank: Rank) -> Result<Block, Error> {
        let members = group.ranks().len() as u32;
        let segment = group.world().segment();
        let block = segment.heap_place(rank, self.block, Block::bytes(members))?;
        if !block.addr().get().is_multiple_of(CACHE_LINE) {
            return Err(self.corrupt(self.block).into());
        }
        // SAFETY: in a mapped heap, by `heap_place`, and aligned; its owner allocated it zeroed, for this, and keeps it.
        Ok(unsafe { Block::new(block, members) })
    }

    const fn corrupt(&self, found: u64) -> Corrupt {
        Corrupt::Heap { found, length: self.length, heap: 0 }
    }
}
