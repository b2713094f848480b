//! The descriptor that a member publishes of its part while a window is made.

use core::cell::Cell;
use core::ptr::NonNull;

use strait_core::buffer::Part as Buffer;
use strait_core::hca::{Region, RemoteAddress};
use strait_core::layout::{Corrupt, Segment};
use strait_core::rma::{AmMemory, WindowBlock};
use strait_core::sync::CACHE_LINE;
use strait_platform::Rank;

use super::create::Own;
use super::internode::InternodeMemory;
use super::part::{PartAccess, WindowPart};
use super::remote::RemoteMember;
use crate::{Error, Group};

/// The member could not make its part.
pub(super) const FAILED: u64 = 1;
/// The part lies in the member's heap.
pub(super) const MAPPED: u64 = 2;
/// The part is private memory of the member.
pub(super) const PRIVATE: u64 = 3;

/// The member attaches memory later.
pub(super) const DYNAMIC: u64 = 4;

/// The member promises [`Accumulates::Single`](super::Accumulates::Single).
pub(super) const SINGLE: u64 = 1;

/// The descriptor of a member's part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartDescriptor {
    pub(super) kind: u64,
    /// Offset from the start of the member's heap in bytes, or an address in its memory.
    pub(super) place: u64,
    pub(super) length: u64,
    pub(super) unit: u64,
    /// Offset of the member's block from the start of its heap, in bytes.
    pub(super) block: u64,
    /// [`SINGLE`], or 0 when the member promises nothing about its accumulates.
    pub(super) accumulates: u64,
    /// The memory that devices reach, if the window spans nodes.
    pub(super) internode: MemberRegions,
    /// The words for the locks: see [`Opening::words`](super::passive::Opening::words).
    pub(super) lock: u64,
    pub(super) manager: u64,
    /// The member's number of the window, if that uses messages, and the design: see
    /// [`BaselineId::word`](super::send_recv::BaselineId::word).
    pub(super) baseline: u64,
}

/// The memory of a member that the devices of others reach.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberRegions {
    pub(super) part: Spot,
    pub(super) block: Spot,
    pub(super) operand_buffers: Spot,
}

/// An address in registered memory, and its remote key.
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

    pub(super) fn remote(self) -> Result<RemoteAddress, Corrupt> {
        let Self { address, key } = self;
        let key = u32::try_from(key).map_err(|_| Corrupt::Length { found: key, max: NO_KEY })?;
        Ok(RemoteAddress { address, key })
    }
}

/// The largest remote key.
const NO_KEY: u64 = u32::MAX as u64;

impl PartDescriptor {
    /// Number of words in a descriptor.
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
            internode,
            lock,
            manager: lock_manager,
            baseline,
        } = self;
        let MemberRegions { part, block, operand_buffers } = internode;
        let ([a, b], [c, d], [e, f]) = (part.words(), block.words(), operand_buffers.words());
        [
            kind,
            place,
            length,
            unit,
            own,
            accumulates,
            a,
            b,
            c,
            d,
            e,
            f,
            lock,
            lock_manager,
            baseline,
        ]
    }

    pub(super) const fn of(words: [u64; Self::WORDS]) -> Self {
        let [
            kind,
            place,
            length,
            unit,
            own,
            accumulates,
            a,
            b,
            c,
            d,
            e,
            f,
            lock,
            lock_manager,
            baseline,
        ] = words;
        let (part, block, operand_buffers) = (Spot::at([a, b]), Spot::at([c, d]), Spot::at([e, f]));
        let internode = MemberRegions { part, block, operand_buffers };
        Self {
            kind,
            place,
            length,
            unit,
            block: own,
            accumulates,
            internode,
            lock,
            manager: lock_manager,
            baseline,
        }
    }

    /// Returns the part of `rank`, in `place`, as this process reaches it.
    pub(super) fn part(
        &self,
        group: &Group<'_>,
        place: usize,
        rank: Rank,
        own: &Own,
    ) -> Result<WindowPart, Error> {
        let world = group.world();
        let segment: Segment = world.segment();
        let count = |found| usize::try_from(found).map_err(|_| self.corrupt(found));
        let (length, unit) = (count(self.length)?, count(self.unit)?);
        let is_elsewhere = world.node_of(rank) != Some(world.node());
        let reach = match self.kind {
            MAPPED | PRIVATE if self.goes_by_messages() && rank != world.rank() => {
                PartAccess::Messages { place: place as u32, address: self.place }
            }
            MAPPED | PRIVATE if is_elsewhere => PartAccess::Device(self.internode.part.address),
            MAPPED => PartAccess::Mapped(segment.heap_place(rank, self.place, length)?),
            DYNAMIC => PartAccess::Mapped(NonNull::dangling()),
            PRIVATE if rank == world.rank() => PartAccess::Mapped(own.base),
            PRIVATE => PartAccess::Process(self.place),
            found => return Err(Corrupt::Place { found: found as u32 }.into()),
        };
        let block = if is_elsewhere { None } else { Some(self.block(group, rank)?) };
        let remote = own.beyond.as_ref().map(|own| self.remote(group, place, rank, own));
        let completes_later = remote.is_some() || matches!(reach, PartAccess::Messages { .. });
        let (reach, (active_messages, awaited)) = (Cell::new(reach), Default::default());
        let is_dynamic = self.kind == DYNAMIC;
        Ok(WindowPart {
            rank,
            reach,
            is_dynamic,
            length,
            unit,
            block,
            remote: remote.transpose()?,
            am_sender: active_messages,
            completes_later,
            awaited,
        })
    }

    /// Returns the addresses at which the device reaches `rank`, in `place`.
    fn remote(
        &self,
        group: &Group<'_>,
        place: usize,
        rank: Rank,
        own: &InternodeMemory,
    ) -> Result<RemoteMember, Corrupt> {
        let MemberRegions { part, block, operand_buffers } = self.internode;
        let layout = AmMemory { members: group.ranks().len() };
        let operand_buffers =
            operand_buffers.remote()?.after(layout.operand_buffers(group.place() as usize));
        let (lane, part, block) = (own.lane(place), Cell::new(part.remote()?), block.remote()?);
        let within = Cell::default();
        Ok(RemoteMember { rank, place: place as u32, lane, part, within, block, operand_buffers })
    }

    /// Returns the block of `rank`, which is on this node.
    fn block(&self, group: &Group<'_>, rank: Rank) -> Result<WindowBlock, Error> {
        let members = group.ranks().len() as u32;
        let segment = group.world().segment();
        let block = segment.heap_place(rank, self.block, WindowBlock::bytes(members))?;
        if !block.addr().get().is_multiple_of(CACHE_LINE) {
            return Err(self.corrupt(self.block).into());
        }
        // SAFETY: `heap_place` has checked that the block lies in a mapped heap, and it is aligned.
        // Its owner allocated it zeroed, for this use, and keeps it.
        Ok(unsafe { WindowBlock::new(block, members) })
    }

    const fn corrupt(&self, found: u64) -> Corrupt {
        Corrupt::Heap { found, length: self.length, heap: 0 }
    }
}
