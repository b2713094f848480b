//! One operation, as a member performs and judges it.

use core::ops::Range;

use strait::{Contribution, Error, Group, InPlace};

use super::{Kind, Operation, compose};

/// A value that no result has where the operation leaves memory alone.
const UNTOUCHED: u64 = 0x5aa5_5aa5_dead_beef;

/// The part of one member.
pub(super) struct Performance<'a> {
    operation: &'a Operation,
    group: &'a Group<'a>,
    own: u32,
    members: u32,
}

/// Returns ranges of these lengths, one after the other, with a gap after each.
fn ranges(lengths: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut start = 1;
    let range = |length| {
        let range = start..start + length;
        start = range.end + 1;
        range
    };
    lengths.map(range).collect()
}

/// Calls a reduction of a group with the operation's combination.
macro_rules! reduce {
    ($group:expr, $call:ident($data:expr $(, $before:expr)*), $with:expr $(, $after:expr)*) => {
        match $with.op() {
            Some(op) => $group.$call($data $(, $before)*, op $(, $after)*),
            None => $group.$call($data $(, $before)*, compose $(, $after)*),
        }
    };
}

impl<'a> Performance<'a> {
    pub(super) fn new(operation: &'a Operation, group: &'a Group<'a>) -> Self {
        Self { operation, group, own: group.place(), members: group.ranks().len() as u32 }
    }

    pub(super) fn run(&self) -> Result<(), Error> {
        match self.operation.kind {
            Kind::Barrier => self.group.barrier(),
            Kind::Split => self.split(),
            Kind::Broadcast => self.broadcast(),
            Kind::Gather | Kind::Gatherv => self.gather(),
            Kind::Scatter | Kind::Scatterv => self.scatter(),
            Kind::Allgather | Kind::Allgatherv => self.allgather(),
            Kind::Alltoall | Kind::Alltoallv | Kind::AlltoallvInPlace => self.alltoall(),
            Kind::Reduce => self.reduce(),
            Kind::Allreduce => self.allreduce(),
            Kind::ReduceScatterBlock | Kind::ReduceScatter => self.reduce_scatter(),
            Kind::Scan | Kind::Exscan => self.scan(),
        }
    }

    fn places(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.members
    }

    fn is_root(&self) -> bool {
        self.own == self.operation.root
    }

    fn in_place(&self) -> bool {
        self.operation.is_in_place(self.own)
    }

    /// Returns what a member contributes to all.
    fn of(&self, place: u32, length: usize) -> Vec<u64> {
        self.operation.elements(place, 0, length)
    }

    #[track_caller]
    fn judge(&self, found: &[u64], expected: &[u64]) {
        let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
        assert!(
            differs.is_none() && found.len() == expected.len(),
            "{:?} at place {} of {}: element {differs:?}",
            self.operation,
            self.own,
            self.members,
        );
    }

    /// Returns the blocks of the members' vectors, and the length of the memory that has them.
    fn blocks(&self, has_gaps: bool) -> (Vec<Range<usize>>, usize) {
        let Operation { length, .. } = *self.operation;
        if !has_gaps {
            let block = |place: u32| place as usize * length..(place as usize + 1) * length;
            return (self.places().map(block).collect(), self.members as usize * length);
        }
        let blocks = ranges(self.places().map(|place| self.operation.block(place, place)));
        let end = blocks.last().map_or(0, |last| last.end + 1);
        (blocks, end)
    }

    /// Returns the memory of a gather after it.
    fn gathered(&self, blocks: &[Range<usize>], bytes: usize) -> Vec<u64> {
        let mut all = vec![UNTOUCHED; bytes];
        for (place, block) in self.places().zip(blocks) {
            all[block.clone()].copy_from_slice(&self.of(place, block.len()));
        }
        all
    }

    fn broadcast(&self) -> Result<(), Error> {
        let Operation { root, length, .. } = *self.operation;
        let expected = self.of(root, length);
        let mut data = if self.is_root() { expected.clone() } else { vec![UNTOUCHED; length] };
        self.group.broadcast(&mut data, root)?;
        self.judge(&data, &expected);
        Ok(())
    }

    /// Returns memory with this member's block, if it contributes in place, and its contribution.
    fn contribution<'b>(
        &self,
        own: &'b Vec<u64>,
        block: &Range<usize>,
        bytes: usize,
        in_place: bool,
    ) -> (Contribution<'b, u64>, Vec<u64>) {
        let mut all = vec![UNTOUCHED; bytes];
        if in_place {
            all[block.clone()].copy_from_slice(own);
            (InPlace.into(), all)
        } else {
            (own.into(), all)
        }
    }

    fn gather(&self) -> Result<(), Error> {
        let Operation { root, kind, .. } = *self.operation;
        let (blocks, bytes) = self.blocks(kind == Kind::Gatherv);
        let block = &blocks[self.own as usize];
        let own = self.of(self.own, block.len());
        if !self.is_root() {
            return match kind {
                Kind::Gather => self.group.gather(&own, &mut [], root),
                _ => self.group.gatherv(&own, &mut [], &[], root),
            };
        }
        let (own, mut all) = self.contribution(&own, block, bytes, self.in_place());
        match kind {
            Kind::Gather => self.group.gather(own, &mut all, root)?,
            _ => self.group.gatherv(own, &mut all, &blocks, root)?,
        }
        self.judge(&all, &self.gathered(&blocks, bytes));
        Ok(())
    }

    fn scatter(&self) -> Result<(), Error> {
        let Operation { root, kind, .. } = *self.operation;
        let (blocks, bytes) = self.blocks(kind == Kind::Scatterv);
        let block = &blocks[self.own as usize];
        let all = if self.is_root() { self.gathered(&blocks, bytes) } else { Vec::new() };
        let in_place = self.is_root() && self.in_place();
        let mut own = vec![UNTOUCHED; if in_place { 0 } else { block.len() }];
        match kind {
            Kind::Scatter => self.group.scatter(&all, &mut own, root)?,
            _ if self.is_root() => self.group.scatterv(&all, &mut own, &blocks, root)?,
            _ => self.group.scatterv(&all, &mut own, &[], root)?,
        }
        if !in_place {
            self.judge(&own, &self.of(self.own, block.len()));
        }
        Ok(())
    }

    fn allgather(&self) -> Result<(), Error> {
        let (blocks, bytes) = self.blocks(self.operation.kind == Kind::Allgatherv);
        let block = &blocks[self.own as usize];
        let own = self.of(self.own, block.len());
        let (own, mut all) = self.contribution(&own, block, bytes, self.in_place());
        match self.operation.kind {
            Kind::Allgather => self.group.allgather(own, &mut all)?,
            _ => self.group.allgatherv(own, &mut all, &blocks)?,
        }
        self.judge(&all, &self.gathered(&blocks, bytes));
        Ok(())
    }

    fn alltoall(&self) -> Result<(), Error> {
        let Operation { kind, length, .. } = *self.operation;
        let blocks = match kind {
            Kind::Alltoall => self.blocks(false).0,
            _ => ranges(self.places().map(|other| self.operation.block(self.own, other))),
        };
        let bytes = match kind {
            Kind::Alltoall => self.members as usize * length,
            _ => blocks.last().map_or(0, |last| last.end + 1),
        };
        // A member sends to the other members in the order of its blocks, from other ranges.
        let fill = |from: &dyn Fn(u32) -> (u32, u32)| {
            let mut all = vec![UNTOUCHED; bytes];
            for (other, block) in self.places().zip(&blocks) {
                let (from, to) = from(other);
                let elements = self.operation.elements(from, to + 1, block.len());
                all[block.clone()].copy_from_slice(&elements);
            }
            all
        };
        let out = fill(&|other| (self.own, other));
        let mut into = vec![UNTOUCHED; bytes];
        match kind {
            Kind::Alltoall if self.operation.seed.is_multiple_of(2) => {
                into.copy_from_slice(&out);
                self.group.alltoall(InPlace, &mut into)?;
            }
            Kind::Alltoall => self.group.alltoall(&out, &mut into)?,
            Kind::AlltoallvInPlace => {
                into.copy_from_slice(&out);
                self.group.alltoallv_in_place(&mut into, &blocks)?;
            }
            _ => self.group.alltoallv(&out, &blocks, &mut into, &blocks)?,
        }
        self.judge(&into, &fill(&|other| (other, self.own)));
        Ok(())
    }

    /// Combines the vectors of the places before `end`.
    fn combined(&self, end: u32, length: usize) -> Vec<u64> {
        let mut result = self.of(0, length);
        for place in 1..end {
            for (mine, theirs) in result.iter_mut().zip(self.of(place, length)) {
                *mine = self.operation.reduction.apply(*mine, theirs);
            }
        }
        result
    }

    fn reduce(&self) -> Result<(), Error> {
        let Operation { root, length, reduction, .. } = *self.operation;
        let mut data = self.of(self.own, length);
        reduce!(self.group, reduce(&mut data), reduction, root)?;
        if self.is_root() {
            self.judge(&data, &self.combined(self.members, length));
        }
        Ok(())
    }

    fn allreduce(&self) -> Result<(), Error> {
        let Operation { length, reduction, .. } = *self.operation;
        let mut data = self.of(self.own, length);
        reduce!(self.group, allreduce(&mut data), reduction)?;
        self.judge(&data, &self.combined(self.members, length));
        Ok(())
    }

    fn reduce_scatter(&self) -> Result<(), Error> {
        let Operation { kind, reduction, .. } = *self.operation;
        let (blocks, length) = self.blocks(kind == Kind::ReduceScatter);
        let mut data = self.of(self.own, length);
        match kind {
            Kind::ReduceScatter => {
                reduce!(self.group, reduce_scatter(&mut data, &blocks), reduction)?;
            }
            _ => reduce!(self.group, reduce_scatter_block(&mut data), reduction)?,
        }
        let block = blocks[self.own as usize].clone();
        self.judge(&data[..block.len()], &self.combined(self.members, length)[block]);
        Ok(())
    }

    fn scan(&self) -> Result<(), Error> {
        let Operation { kind, length, reduction, .. } = *self.operation;
        let mut data = self.of(self.own, length);
        if kind == Kind::Scan {
            reduce!(self.group, scan(&mut data), reduction)?;
            self.judge(&data, &self.combined(self.own + 1, length));
        } else {
            reduce!(self.group, exscan(&mut data), reduction)?;
            self.judge(&data, &self.combined(self.own.max(1), length));
        }
        Ok(())
    }

    /// Splits the group by colours, of which one stands for no group, and sums in each new group.
    fn split(&self) -> Result<(), Error> {
        let draw = |place: u32| {
            let mut random = fastrand::Rng::with_seed(self.operation.seed ^ u64::from(place));
            (random.u32(..3).checked_sub(1), random.i64(..3))
        };
        let (colour, key) = draw(self.own);
        let Some(group) = self.group.split(colour, key)? else {
            assert_eq!(colour, None, "{:?}", self.operation);
            return Ok(());
        };
        let mut expected: Vec<_> = self.places().filter(|place| draw(*place).0 == colour).collect();
        expected.sort_by_key(|place| (draw(*place).1, *place));
        let ranks: Vec<_> =
            expected.iter().map(|place| self.group.ranks()[*place as usize]).collect();
        assert_eq!(group.ranks(), ranks, "{:?}", self.operation);
        let mut sum = [u64::from(self.own)];
        group.allreduce(&mut sum, strait::Op::Sum)?;
        assert_eq!(sum, [expected.into_iter().map(u64::from).sum()]);
        Ok(())
    }
}
