//! All-to-all.

use super::choice::{BRUCK_BLOCK, BRUCK_MEMBERS, BRUCK_NODE_BLOCK, BRUCK_NODE_MEMBERS};
use super::{piece_of, piece_of_mut};
use crate::Error;
use crate::collective::blocks::Blocks;
use crate::collective::team::Team;

impl Team<'_> {
    /// Sends each member its block of `out`, and receives the members' blocks in `into`.
    pub(in crate::collective) fn alltoall(
        &self,
        out: &[u8],
        from: Blocks<'_>,
        into: &mut [u8],
        to: Blocks<'_>,
    ) -> Result<(), Error> {
        if let Some(block) = self.passed_on(to) {
            into.copy_from_slice(out);
            return self.alltoall_passed_on(into, block);
        }
        let (own, kept) = (piece_of(out, from.range(self.place)), to.range(self.place));
        self.check_length(kept.len(), own.len())?;
        piece_of_mut(into, kept).copy_from_slice(own);
        let sent = |place| piece_of(out, from.range(place));
        self.exchange_with_all(sent, into, |place| to.range(place))
    }

    /// Exchanges the block of each member in `all` for the member's block.
    pub(in crate::collective) fn alltoall_in_place(
        &self,
        all: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<(), Error> {
        if let Some(block) = self.passed_on(blocks) {
            return self.alltoall_passed_on(all, block);
        }
        let longest = (0..self.count()).map(|place| blocks.length(place)).max().unwrap_or(0);
        let mut scratch = self.scratch(longest);
        for partner in (0..self.count()).map(|round| self.partner(round)) {
            if partner == self.place {
                continue;
            }
            let block = &mut all[blocks.range(partner)];
            let sent = &mut scratch.bytes()[..block.len()];
            sent.copy_from_slice(block);
            self.exchange(sent, partner, block, partner)?;
        }
        Ok(())
    }

    /// Returns the length of the blocks, if they are to be passed on.
    fn passed_on(&self, blocks: Blocks<'_>) -> Option<usize> {
        let Blocks::Equal(block) = blocks else { return None };
        let (most, members) = match self.is_on_one_node() {
            true => (BRUCK_NODE_BLOCK, BRUCK_NODE_MEMBERS),
            false => (BRUCK_BLOCK, BRUCK_MEMBERS),
        };
        (block <= most && self.count() >= members).then_some(block)
    }

    /// Returns the member that this one meets in a round. Each pair meets in one round, and each
    /// member once with itself.
    const fn partner(&self, round: u32) -> u32 {
        let count = self.count();
        (round + count - self.place) % count
    }

    /// Passes blocks on: a block that goes `distance` places up travels by the powers of two in
    /// that distance, together with all others that take the same step (Bruck).
    fn alltoall_passed_on(&self, all: &mut [u8], block: usize) -> Result<(), Error> {
        let count = self.count();
        let mut scratch = self.scratch(3 * all.len());
        let (turned, packed) = scratch.bytes().split_at_mut(all.len());
        let (out, into) = packed.split_at_mut(all.len());
        all.rotate_left(self.place as usize * block);
        turned.copy_from_slice(all);
        let place_of = |distance: u32| distance as usize * block..(distance as usize + 1) * block;
        let mut bit = 1;
        while bit < count {
            let moving = || (0..count).filter(|distance| distance & bit != 0);
            let mut bytes = 0;
            for distance in moving() {
                out[bytes..bytes + block].copy_from_slice(&turned[place_of(distance)]);
                bytes += block;
            }
            let (to, from) =
                (self.absolute(bit, self.place), self.absolute(count - bit, self.place));
            self.exchange(&out[..bytes], to, &mut into[..bytes], from)?;
            for (distance, block) in moving().zip(into.chunks_exact(block.max(1))) {
                turned[place_of(distance)].copy_from_slice(block);
            }
            bit *= 2;
        }
        // The block at a distance has come from that many places below.
        for distance in 0..count {
            let from = self.absolute(count - distance, self.place);
            all[place_of(from)].copy_from_slice(&turned[place_of(distance)]);
        }
        Ok(())
    }
}
