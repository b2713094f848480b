//! Allgather.

use core::ops::Range;

use super::choice::{AT_ONCE_MEMBERS, BRUCK_ALLGATHER};
use super::piece_of;
use crate::Error;
use crate::collective::Meeting;
use crate::collective::blocks::{Blocks, keep};
use crate::collective::team::Team;

impl Team<'_> {
    /// Gathers the members' blocks in `all` at every member, through the segment or by messages.
    /// `own` is `None` when this member's block is in place.
    pub(in crate::collective) fn allgather_all(
        &self,
        meeting: Meeting<'_>,
        own: Option<&[u8]>,
        all: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<(), Error> {
        if self.is_on_one_node() && self.allgather_shared(meeting, own, all, blocks)? {
            return Ok(());
        }
        self.allgather(own, all, blocks)
    }

    /// Gathers the members' blocks as [`Team::allgather_all`] does, by messages.
    pub(in crate::collective) fn allgather(
        &self,
        own: Option<&[u8]>,
        all: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<(), Error> {
        keep(own, &mut all[blocks.range(self.place)]);
        let is_in_place_of_two = own.is_none() && self.count() == 2;
        if self.count() <= AT_ONCE_MEMBERS && !is_in_place_of_two && self.is_on_one_node() {
            return self.allgather_at_once(own, all, blocks);
        }
        if self.count() > 2 && blocks.total(self.count()) <= BRUCK_ALLGATHER {
            self.allgather_doubling(all, blocks)
        } else {
            self.allgather_ring(all, blocks)
        }
    }

    /// Sends this member's block to all others, and receives theirs.
    fn allgather_at_once(
        &self,
        own: Option<&[u8]>,
        all: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<(), Error> {
        let to = |place| blocks.range(place);
        if let Some(own) = own {
            return self.exchange_with_all(|_| own, all, to);
        }
        let own = to(self.place);
        let mut others = (0..self.count()).filter(|place| *place != self.place);
        if others.any(|place| overlap(&own, &to(place))) {
            // The others still expect the whole block.
            let mut copy = self.scratch(own.len());
            let sent = copy.bytes();
            sent.copy_from_slice(piece_of(all, own));
            let sent = &*sent;
            return self.exchange_with_all(|_| sent, all, to);
        }
        // SAFETY: the others' blocks lie elsewhere.
        unsafe { self.exchange_within(own, all, to) }
    }

    /// Passes each block on around a ring.
    fn allgather_ring(&self, all: &mut [u8], blocks: Blocks<'_>) -> Result<(), Error> {
        let count = self.count();
        let (to, from) = (self.absolute(1, self.place), self.absolute(count - 1, self.place));
        for step in 1..count {
            let sent = (self.place + count - (step - 1)) % count;
            let received = (self.place + count - step) % count;
            let (sent, received) = (blocks.range(sent), blocks.range(received));
            if overlap(&sent, &received) {
                // The member behind still expects the whole block.
                let mut copy = self.scratch(sent.len());
                copy.bytes().copy_from_slice(&all[sent]);
                self.exchange(copy.bytes(), to, &mut all[received], from)?;
            } else {
                let (sent, received) = two_of(all, sent, received);
                self.exchange(sent, to, received, from)?;
            }
        }
        Ok(())
    }

    /// Doubles the number of blocks that each member has in every step (Bruck). A member keeps them
    /// in the order of the places from its own on.
    fn allgather_doubling(&self, all: &mut [u8], blocks: Blocks<'_>) -> Result<(), Error> {
        let count = self.count();
        let mut scratch = self.scratch(blocks.total(count));
        let turned = scratch.bytes();
        let length = |step| blocks.length(self.absolute(step, self.place));
        let mut have = 1;
        let mut end = length(0);
        turned[..end].copy_from_slice(&all[blocks.range(self.place)]);
        while have < count {
            let more = have.min(count - have);
            let sent = (0..more).map(length).sum::<usize>();
            let received = (have..have + more).map(length).sum::<usize>();
            let (known, unknown) = turned.split_at_mut(end);
            let (to, from) =
                (self.absolute(count - have, self.place), self.absolute(have, self.place));
            self.exchange(&known[..sent], to, &mut unknown[..received], from)?;
            have += more;
            end += received;
        }
        let mut rest: &[u8] = turned;
        for step in 0..count {
            let (block, after) = rest.split_at(length(step));
            if step > 0 {
                all[blocks.range(self.absolute(step, self.place))].copy_from_slice(block);
            }
            rest = after;
        }
        Ok(())
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Returns a range of `all` to read and another to write. They do not overlap.
fn two_of(all: &mut [u8], read: Range<usize>, write: Range<usize>) -> (&[u8], &mut [u8]) {
    if read.end <= write.start {
        let (before, after) = all.split_at_mut(write.start);
        (&before[read], &mut after[..write.len()])
    } else {
        let (before, after) = all.split_at_mut(write.end);
        (&after[read.start - write.end..read.end - write.end], &mut before[write])
    }
}
