//! What a member says of its part while a window is made.

use core::cell::Cell;

use strait_core::hca::Remote;
use strait_core::layout::{Corrupt, Segment};
use strait_core::rma::Block;
use strait_core::sync::CACHE_LINE;

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

/// It promises [`Accumulates::Single`](super::Accumulates::Single).
pub(super) const SINGLE: u64 = 1;

/// What a member says of its part.
#[derive(Clone, Copy, Debug)]
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
    /// Its part, for a device, if the window spans nodes.
    pub(super) address: u64,
    pub(super) key: u64,
    /// Its block, likewise.
    pub(super) block_address: u64,
    pub(super) block_key: u64,
    /// What it says of its locks: see [`Opening::words`](super::passive::Opening::words).
    pub(super) lock: u64,
    pub(super) desk: u64,
}

impl Card {
    /// Words of a card.
    pub(super) const WORDS: usize = 12;

    pub(super) const FAILED: Self = Self { kind: FAILED, ..Self::of([0; Self::WORDS]) };

    pub(super) const fn words(self) -> [u64; Self::WORDS] {
        let Self { kind, place, length, unit, block, accumulates, .. } = self;
        let Self { address, key, block_address, block_key, lock, desk, .. } = self;
        [
            kind,
            place,
            length,
            unit,
            block,
            accumulates,
            address,
            key,
            block_address,
            block_key,
            lock,
            desk,
        ]
    }

    pub(super) const fn of(words: [u64; Self::WORDS]) -> Self {
        let [kind, place, length, unit, block, accumulates, ..] = words;
        let [.., address, key, block_address, block_key, lock, desk] = words;
        Self {
            kind,
            place,
            length,
            unit,
            block,
            accumulates,
            address,
            key,
            block_address,
            block_key,
            lock,
            desk,
        }
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
            MAPPED | PRIVATE if is_elsewhere => Reach::Device(self.address),
            MAPPED => Reach::Mapped(segment.heap_place(rank, self.place, length)?),
            PRIVATE if rank == world.rank() => Reach::Mapped(own.base),
            PRIVATE => Reach::Process(self.place),
            found => return Err(Corrupt::Place { found: found as u32 }.into()),
        };
        let block = if is_elsewhere { None } else { Some(self.block(group, rank)?) };
        let key = |found| u32::try_from(found).map_err(|_| self.corrupt(found));
        let (part_key, block_key) = (key(self.key)?, key(self.block_key)?);
        let far = own.beyond.as_ref().map(|beyond| Far {
            rank,
            lane: beyond.lane(place),
            part: Remote { address: self.address, key: part_key },
            block: Remote { address: self.block_address, key: block_key },
        });
        Ok(Part { rank, reach, length, unit, block, far, awaited: Cell::new(false) })
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
