//! Gather and allgather of equal blocks among the members of one node, through collective buffers.
//! Each is one step of the group.
//!
//! Absent on purpose: scatter, which was not faster in this way than by messages.

use super::Meeting;
use super::algorithms::choice::{SHARED_ALLGATHER, SHARED_GATHER};
use super::blocks::{Blocks, keep};
use super::shared::{SharedSteps, is_shared};
use super::team::Team;
use crate::Error;

impl Team<'_> {
    /// Gathers blocks at the root: each other member shows its block there. Returns false as
    /// [`Team::broadcast_shared`] does.
    pub(super) fn gather_shared(
        self,
        meeting: Meeting<'_>,
        own: Option<&[u8]>,
        all: &mut [u8],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<bool, Error> {
        let Blocks::Equal(block) = blocks else { return Ok(false) };
        if !is_shared(self.count(), block, &SHARED_GATHER) {
            return Ok(false);
        }
        self.in_step(meeting, |mut steps| {
            if self.place != root {
                return steps.show(own.unwrap_or(&[]));
            }
            steps.enter();
            keep(own, &mut all[blocks.range(root)]);
            steps.gather(all, blocks)
        })
    }

    /// Gathers blocks at all members. Returns false as [`Team::broadcast_shared`] does.
    pub(super) fn allgather_shared(
        self,
        meeting: Meeting<'_>,
        own: Option<&[u8]>,
        all: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Result<bool, Error> {
        let Blocks::Equal(block) = blocks else { return Ok(false) };
        if !is_shared(self.count(), block, &SHARED_ALLGATHER) {
            return Ok(false);
        }
        self.in_step(meeting, |mut steps| {
            keep(own, &mut all[blocks.range(self.place)]);
            steps.show(&all[blocks.range(self.place)])?;
            steps.gather(all, blocks)
        })
    }
}

impl SharedSteps<'_> {
    /// Reads the block that each other member shows in the last step.
    fn gather(&mut self, all: &mut [u8], blocks: Blocks<'_>) -> Result<(), Error> {
        let (own, count) = (self.team.place, self.team.count());
        for place in (0..count).filter(|place| *place != own) {
            self.wait_for(place)?;
            self.read(place, &mut all[blocks.range(place)])?;
        }
        Ok(())
    }
}
