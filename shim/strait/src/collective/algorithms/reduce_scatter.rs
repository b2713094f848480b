//! Reduce-scatter.

use core::ops::Range;

use super::choice::REDUCE_SCATTER_PAIRWISE;
use super::piece_of;
use crate::Error;
use crate::collective::Meeting;
use crate::collective::blocks::Blocks;
use crate::collective::operation::Operator;
use crate::collective::team::Team;

impl Team<'_> {
    /// Reduces for all members, and leaves each member's block of the result at the start of its
    /// `data`. The rest of `data` is undefined afterwards.
    pub(in crate::collective) fn reduce_scatter(
        &self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        blocks: Blocks<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let own = blocks.range(self.place);
        if !self.scatters_vectors(data.len()) {
            self.allreduce(meeting, None, data, op)?;
            data.copy_within(own, 0);
            return Ok(());
        }
        let mut others = self.scratch((self.count() as usize - 1) * own.len());
        self.gather_vectors(data, others.bytes(), blocks)?;
        let length = own.len();
        data.copy_within(own, 0);
        self.combine_vectors(&mut data[..length], others.bytes(), op);
        Ok(())
    }

    /// Reduces for all members, from `own` into each member's `result`.
    pub(in crate::collective) fn reduce_scatter_apart(
        &self,
        meeting: Meeting<'_>,
        (own, result): (&[u8], &mut [u8]),
        blocks: Blocks<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let block = piece_of(own, blocks.range(self.place));
        if self.reduces_as_pair() {
            let other = 1 - self.place;
            self.exchange(piece_of(own, blocks.range(other)), other, result, other)?;
            self.combine_with_own(op, result, block, other);
        } else if self.scatters_vectors(own.len()) {
            let mut others = self.scratch((self.count() as usize - 1) * result.len());
            self.gather_vectors(own, others.bytes(), blocks)?;
            result.copy_from_slice(block);
            self.combine_vectors(result, others.bytes(), op);
        } else {
            let mut data = self.scratch(own.len());
            self.allreduce(meeting, Some(own), data.bytes(), op)?;
            result.copy_from_slice(piece_of(data.bytes(), blocks.range(self.place)));
        }
        Ok(())
    }

    /// Returns whether each member combines its own block of vectors of this length.
    const fn scatters_vectors(&self, bytes: usize) -> bool {
        bytes >= REDUCE_SCATTER_PAIRWISE || self.count() == 2
    }

    /// Receives the other members' vectors of this member's block in `others`, in the order of the
    /// places.
    fn gather_vectors(
        &self,
        own: &[u8],
        others: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<(), Error> {
        let (length, place) = (blocks.length(self.place), self.place);
        let sent = |place| piece_of(own, blocks.range(place));
        self.exchange_with_all(sent, others, |from| vector_of(from, place, length))
    }

    /// Combines `result`, which is this member's vector of its block, with the other members', in
    /// the order of other reductions.
    fn combine_vectors(&self, result: &mut [u8], others: &mut [u8], op: &dyn Operator) {
        let (count, own, length) = (self.count(), self.place, result.len());
        let vector = |place| vector_of(place, own, length);
        let mut bit = 1;
        while bit < count {
            // The vectors of `bit` places are together in that of the first one, or in `result`.
            let with_own = own & !(bit - 1);
            for left in (0..count - bit).step_by(2 * bit as usize) {
                let right = left + bit;
                if left == with_own {
                    op.with_higher(result, piece_of(others, vector(right)));
                } else if right == with_own {
                    op.with_lower(result, piece_of(others, vector(left)));
                } else {
                    let (before, after) = others.split_at_mut(vector(right).start);
                    op.with_higher(&mut before[vector(left)], piece_of(after, 0..length));
                }
            }
            bit *= 2;
        }
    }
}

/// Returns where the vector from `place` lies among those of all members but `own`.
const fn vector_of(place: u32, own: u32, length: usize) -> Range<usize> {
    let number = if place > own { place - 1 } else { place } as usize;
    number * length..(number + 1) * length
}
