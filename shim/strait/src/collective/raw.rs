//! Collective operations on memory that the caller promises to be valid, for the interfaces of
//! other languages and libraries.

use core::ops::Range;
use core::slice::{from_raw_parts, from_raw_parts_mut};

use strait_core::buffer::Part;

use super::blocks::Blocks;
use super::raw_group::RawGroup;
use super::reductions::{allreduce, reduce};
use super::{Group, Operator, broadcast, run};
use crate::{CollectiveError, Error};

/// The block of each member in a vector of bytes.
#[derive(Clone, Copy, Debug)]
pub enum RawBlocks<'a> {
    /// Blocks of this many bytes, one after the other in the order of the places.
    Equal(usize),
    /// The range of bytes of each place.
    Ranges(&'a [Range<usize>]),
}

impl<'a> RawBlocks<'a> {
    /// Checks the blocks against a vector of `bytes` bytes.
    fn check(self, bytes: usize, members: u32) -> Result<Blocks<'a>, CollectiveError> {
        match self {
            Self::Ranges(ranges) => Blocks::ranges(ranges, 1, bytes, members),
            Self::Equal(block) if block.checked_mul(members as usize) == Some(bytes) => {
                Ok(Blocks::Equal(block))
            }
            Self::Equal(_) => Err(CollectiveError::Uneven { bytes, members }),
        }
    }

    /// Returns the blocks as a member without the vector knows them.
    const fn elsewhere(self) -> Blocks<'a> {
        match self {
            Self::Equal(block) => Blocks::Equal(block),
            Self::Ranges(_) => Blocks::Ranges { ranges: &[], unit: 1 },
        }
    }
}

/// Returns the bytes of a part.
///
/// # Safety
///
/// They are valid for reads, and unchanged, while the slice is in use.
const unsafe fn bytes<'a>(part: Part) -> &'a [u8] {
    // SAFETY: the caller guarantees it (contract of `bytes`).
    unsafe { from_raw_parts(part.base.as_ptr(), part.length) }
}

/// Returns the bytes of a part.
///
/// # Safety
///
/// They are valid for reads and writes, and nothing else accesses them, while the slice is in use.
const unsafe fn bytes_mut<'a>(part: Part) -> &'a mut [u8] {
    // SAFETY: the caller guarantees it (contract of `bytes_mut`).
    unsafe { from_raw_parts_mut(part.base.as_ptr(), part.length) }
}

impl RawGroup for Group<'_> {
    fn check_whole(&self) -> Result<(), Error> {
        Ok(self.team().check_whole()?)
    }

    unsafe fn broadcast_raw(&self, data: Part, root: u32) -> Result<(), Error> {
        // SAFETY: the caller guarantees it (contract of `broadcast_raw`).
        let data = unsafe { bytes_mut(data) };
        broadcast(self.team(), self.meeting(), data, root)
    }

    unsafe fn gather_raw(
        &self,
        own: Option<Part>,
        all: Part,
        blocks: RawBlocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let at_root = self.place() == root;
        // SAFETY: the caller guarantees it (contract of `gather_raw`).
        let own = own.map(|own| unsafe { bytes(own) });
        let (all, blocks) = match at_root {
            // SAFETY: the caller guarantees it (contract of `gather_raw`).
            true => (unsafe { bytes_mut(all) }, blocks.check(all.length, self.ranks.len() as u32)?),
            false => (&mut [][..], blocks.elsewhere()),
        };
        if !at_root && own.is_none() {
            return Err(CollectiveError::InPlace { root }.into());
        }
        self.check_block(own.map(<[u8]>::len), blocks)?;
        run(self.team(), Some(root), |team| team.gather(self.meeting(), own, all, blocks, root))
    }

    unsafe fn scatter_raw(
        &self,
        all: Part,
        own: Option<Part>,
        blocks: RawBlocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let at_root = self.place() == root;
        // SAFETY: the caller guarantees it (contract of `scatter_raw`).
        let own = own.map(|own| unsafe { bytes_mut(own) });
        let (all, blocks) = match at_root {
            // SAFETY: the caller guarantees it (contract of `scatter_raw`).
            true => (unsafe { bytes(all) }, blocks.check(all.length, self.ranks.len() as u32)?),
            false => (&[][..], blocks.elsewhere()),
        };
        if !at_root && own.is_none() {
            return Err(CollectiveError::InPlace { root }.into());
        }
        self.check_block(own.as_deref().map(<[u8]>::len), blocks)?;
        run(self.team(), Some(root), |team| team.scatter(all, own, blocks, root))
    }

    unsafe fn allgather_raw(
        &self,
        own: Option<Part>,
        all: Part,
        blocks: RawBlocks<'_>,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees it (contract of `allgather_raw`).
        let (own, all) = unsafe { (own.map(|own| bytes(own)), bytes_mut(all)) };
        let blocks = blocks.check(all.len(), self.ranks.len() as u32)?;
        self.check_block(own.map(<[u8]>::len), blocks)?;
        run(self.team(), None, |team| team.allgather_all(self.meeting(), own, all, blocks))
    }

    unsafe fn alltoall_raw(
        &self,
        out: Option<(Part, RawBlocks<'_>)>,
        into: Part,
        to: RawBlocks<'_>,
    ) -> Result<(), Error> {
        let members = self.ranks.len() as u32;
        // SAFETY: the caller guarantees it (contract of `alltoall_raw`).
        let into = unsafe { bytes_mut(into) };
        let to = to.check(into.len(), members)?;
        let Some((out, from)) = out else {
            return run(self.team(), None, |team| team.alltoall_in_place(into, to));
        };
        // SAFETY: the caller guarantees it (contract of `alltoall_raw`).
        let out = unsafe { bytes(out) };
        let from = from.check(out.len(), members)?;
        run(self.team(), None, |team| team.alltoall(out, from, into, to))
    }

    unsafe fn reduce_raw(
        &self,
        own: Option<Part>,
        result: Option<Part>,
        op: &dyn Operator,
        root: u32,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees it (contract of `reduce_raw`).
        let (own, result) =
            unsafe { (own.map(|own| bytes(own)), result.map(|all| bytes_mut(all))) };
        let team = self.team();
        if team.reduces_as_pair() {
            return match (result, own) {
                (Some(result), own) => {
                    self.check_vector(own, result)?;
                    run(team, Some(root), |team| team.reduce_from_other(own, result, op))
                }
                (None, Some(own)) => run(team, Some(root), |team| team.send(own, root)),
                (None, None) => Err(CollectiveError::InPlace { root }.into()),
            };
        }
        let Some(data) = result else {
            let own = own.ok_or(CollectiveError::InPlace { root })?;
            let mut scratch = team.scratch(own.len());
            scratch.bytes().copy_from_slice(own);
            return reduce(team, self.meeting(), scratch.bytes(), op, root);
        };
        self.fill(own, data)?;
        reduce(team, self.meeting(), data, op, root)
    }

    unsafe fn allreduce_raw(
        &self,
        own: Option<Part>,
        result: Part,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees it (contract of `allreduce_raw`).
        let (own, data) = unsafe { (own.map(|own| bytes(own)), bytes_mut(result)) };
        self.check_vector(own, data)?;
        allreduce(self.team(), self.meeting(), own, data, op)
    }

    unsafe fn reduce_scatter_raw(
        &self,
        own: Option<Part>,
        result: Part,
        blocks: RawBlocks<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let members = self.ranks.len() as u32;
        // SAFETY: the caller guarantees it (contract of `reduce_scatter_raw`).
        let (own, result) = unsafe { (own.map(|own| bytes(own)), bytes_mut(result)) };
        let Some(own) = own else {
            let blocks = blocks.check(result.len(), members)?;
            return run(self.team(), None, |team| {
                team.reduce_scatter(self.meeting(), result, blocks, op)
            });
        };
        let blocks = blocks.check(own.len(), members)?;
        self.check_block(Some(result.len()), blocks)?;
        run(self.team(), None, |team| {
            team.reduce_scatter_apart(self.meeting(), (own, result), blocks, op)
        })
    }

    unsafe fn scan_raw(
        &self,
        own: Option<Part>,
        result: Part,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees it (contract of `scan_raw`).
        let (own, data) = unsafe { (own.map(|own| bytes(own)), bytes_mut(result)) };
        self.fill(own, data)?;
        run(self.team(), None, |team| team.scan(data, op))
    }

    unsafe fn exscan_raw(
        &self,
        own: Option<Part>,
        result: Part,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees it (contract of `exscan_raw`).
        let (own, data) = unsafe { (own.map(|own| bytes(own)), bytes_mut(result)) };
        if let Some(own) = own {
            self.team().check_length(data.len(), own.len())?;
        }
        run(self.team(), None, |team| team.exscan(own, data, op))
    }
}

impl Group<'_> {
    /// Copies this member's vector to where it is combined.
    fn fill(&self, own: Option<&[u8]>, data: &mut [u8]) -> Result<(), Error> {
        self.check_vector(own, data)?;
        if let Some(own) = own {
            data.copy_from_slice(own);
        }
        Ok(())
    }

    /// Refuses a vector of this member that is longer or shorter than the result.
    fn check_vector(&self, own: Option<&[u8]>, data: &[u8]) -> Result<(), Error> {
        own.map_or(Ok(()), |own| self.team().check_length(data.len(), own.len()))
    }

    /// Refuses a vector of this member that has not the length of its block, where it knows that.
    fn check_block(&self, found: Option<usize>, blocks: Blocks<'_>) -> Result<(), Error> {
        match (found, blocks) {
            (None, _) | (_, Blocks::Ranges { ranges: [], .. }) => Ok(()),
            (Some(found), blocks) => self.team().check_length(blocks.length(self.place()), found),
        }
    }
}
