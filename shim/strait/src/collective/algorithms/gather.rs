//! Gather.

use super::choice::{AT_ONCE, TREE_BLOCK, TREE_MEMBERS};
use crate::Error;
use crate::collective::Meeting;
use crate::collective::blocks::{Blocks, keep};
use crate::collective::team::Team;

impl Team<'_> {
    /// Gathers the members' blocks in `all` at the root. `own` is `None` at a root with its block
    /// in place. Other members use neither `all` nor ranges of `blocks`.
    pub(in crate::collective) fn gather(
        self,
        meeting: Meeting<'_>,
        own: Option<&[u8]>,
        all: &mut [u8],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let by_tree = matches!(blocks, Blocks::Equal(block) if block <= TREE_BLOCK);
        if by_tree && !self.is_on_one_node() {
            return self.gather_by_nodes(own, all, blocks, root);
        }
        if by_tree && self.count() >= TREE_MEMBERS {
            return self.gather_by_tree(own, all, blocks, root);
        }
        if self.is_on_one_node() && self.gather_shared(meeting, own, all, blocks, root)? {
            return Ok(());
        }
        if self.place != root {
            return self.send(own.unwrap_or(&[]), root);
        }
        keep(own, &mut all[blocks.range(root)]);
        self.gather_each(all, blocks)
    }

    /// Receives the block of each other member.
    pub(super) fn gather_each(&self, all: &mut [u8], blocks: Blocks<'_>) -> Result<(), Error> {
        let to = |place| blocks.range(place);
        if all.len() >= AT_ONCE {
            self.receive_from_all(all, to)
        } else {
            self.receive_each(all, 1..self.count(), to)
        }
    }

    /// Gathers equal blocks along a binomial tree. A member passes the blocks of its descendants on
    /// in the order of their distances from the root, which the places have with one turn.
    fn gather_by_tree(
        &self,
        own: Option<&[u8]>,
        all: &mut [u8],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let (block, relative) = (blocks.length(0), self.relative(root));
        let parent = self.parent_bit(relative);
        let descendants = parent.min(self.count() - relative) as usize;
        if descendants == 1 {
            return self.send(own.unwrap_or(&[]), self.absolute(relative - parent, root));
        }
        let mut scratch = self.scratch(descendants * block);
        let gathered = scratch.bytes();
        keep(own, &mut gathered[..block]);
        let mut bit = 1;
        while bit < parent && relative + bit < self.count() {
            let theirs = bit as usize..descendants.min(2 * bit as usize);
            let theirs = &mut gathered[theirs.start * block..theirs.end * block];
            self.receive(theirs, self.absolute(relative + bit, root))?;
            bit *= 2;
        }
        if relative != 0 {
            return self.send(gathered, self.absolute(relative - parent, root));
        }
        let turn = (self.count() - root) as usize * block;
        let own = usize::from(own.is_none()) * block;
        all[root as usize * block + own..].copy_from_slice(&gathered[own..turn]);
        all[..root as usize * block].copy_from_slice(&gathered[turn..]);
        Ok(())
    }
}
