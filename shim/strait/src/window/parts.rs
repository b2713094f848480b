//! The parts of all members, from the descriptors that the members publish.

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use strait_core::layout::{Corrupt, Segment};
use strait_core::rma::{AmMemory, WindowBlock};
use strait_core::sync::CACHE_LINE;
use strait_platform::Rank;

use super::internode::InternodeMemory;
use super::own::Own;
use super::part::{PartAccess, RemoteMember, WindowPart};
use super::part_descriptor::{DYNAMIC, MAPPED, MemberRegions, PRIVATE, PartDescriptor};
use crate::{Error, Group, World};

impl PartDescriptor {
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
            run: RefCell::default(),
            is_dynamic,
            length,
            unit,
            block,
            remote: remote.transpose()?,
            am_sender: active_messages,
            completes_later,
            // Where all operations on a part are its owner's, no lock is ever needed.
            biased: Cell::new(if self.goes_by_messages() { u64::MAX } else { 0 }),
            gathered: RefCell::default(),
            started: RefCell::default(),
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
        let bytes = match self.kind {
            DYNAMIC => WindowBlock::dynamic_bytes(members),
            _ => WindowBlock::bytes(members),
        };
        let block = segment.heap_place(rank, self.block, bytes)?;
        if !block.addr().get().is_multiple_of(CACHE_LINE) {
            return Err(self.corrupt(self.block).into());
        }
        // SAFETY: `heap_place` has checked that the block lies in a mapped heap, and it is aligned.
        // Its owner allocated it zeroed, for this use, and keeps it.
        Ok(unsafe {
            match self.kind {
                DYNAMIC => WindowBlock::dynamic(block, members),
                _ => WindowBlock::new(block, members),
            }
        })
    }

    const fn corrupt(&self, found: u64) -> Corrupt {
        Corrupt::Heap { found, length: self.length, heap: 0 }
    }
}

/// Returns the first part in private memory of its owner that this rank cannot reach.
pub(super) fn first_barred(world: &World, parts: &[WindowPart]) -> Option<Rank> {
    let segment = world.segment();
    let is_barred = |part: &&WindowPart| {
        matches!(part.reach.get(), PartAccess::Process(_))
            && !world.lock_progress().cma().reaches(&segment, part.rank)
    };
    parts.iter().find(is_barred).map(|part| part.rank)
}
