//! Reduce-scatter.

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
        if data.len() >= REDUCE_SCATTER_PAIRWISE || self.count() == 2 {
            return self.reduce_scatter_pairwise(data, blocks, op);
        }
        self.allreduce(meeting, None, data, op)?;
        data.copy_within(blocks.range(self.place), 0);
        Ok(())
    }

    /// Does it for [two members](Team::reduces_as_pair), from `own` into `result`.
    pub(in crate::collective) fn reduce_scatter_pair(
        &self,
        own: &[u8],
        result: &mut [u8],
        blocks: Blocks<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let other = 1 - self.place;
        self.exchange(piece_of(own, blocks.range(other)), other, result, other)?;
        self.combine_with_own(op, result, piece_of(own, blocks.range(self.place)), other);
        Ok(())
    }

    /// Receives all members' vectors of this member's block, and combines them in the order of
    /// other reductions.
    fn reduce_scatter_pairwise(
        &self,
        data: &mut [u8],
        blocks: Blocks<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let (count, own) = (self.count(), blocks.length(self.place));
        let mut scratch = self.scratch(count as usize * own);
        let all = scratch.bytes();
        let vector = |place: u32| place as usize * own..(place as usize + 1) * own;
        for step in 0..count {
            let (to, from) =
                (self.absolute(step, self.place), self.absolute(count - step, self.place));
            let (sent, received) = (piece_of(data, blocks.range(to)), &mut all[vector(from)]);
            if step == 0 {
                received.copy_from_slice(sent);
            } else {
                self.exchange(sent, to, received, from)?;
            }
        }
        let mut bit = 1;
        while bit < count {
            for left in (0..count - bit).step_by(2 * bit as usize) {
                let (before, after) = all.split_at_mut(vector(left + bit).start);
                op.with_higher(&mut before[vector(left)], &after[..own]);
            }
            bit *= 2;
        }
        data[..own].copy_from_slice(&all[..own]);
        Ok(())
    }
}
