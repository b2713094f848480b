//! Scatter.

use super::choice::{AT_ONCE, NODE_BLOCK, TREE_BLOCK, TREE_MEMBERS};
use super::piece_of;
use crate::Error;
use crate::collective::blocks::Blocks;
use crate::collective::team::Team;

impl Team<'_> {
    /// Scatters the root's blocks of `all`. `own` is `None` at a root that leaves its block in
    /// place. Other members use neither `all` nor ranges of `blocks`.
    pub(in crate::collective) fn scatter(
        self,
        all: &[u8],
        own: Option<&mut [u8]>,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let equal_up_to = |most| matches!(blocks, Blocks::Equal(block) if block <= most);
        if equal_up_to(NODE_BLOCK) && !self.is_on_one_node() {
            return self.scatter_by_nodes(all, own, blocks, root);
        }
        if equal_up_to(TREE_BLOCK) && self.count() >= TREE_MEMBERS {
            return self.scatter_by_tree(all, own, blocks, root);
        }
        if self.place != root {
            return self.receive(own.unwrap_or(&mut []), root);
        }
        if let Some(own) = own {
            own.copy_from_slice(&all[blocks.range(root)]);
        }
        self.scatter_each(all, blocks)
    }

    /// Sends each other member its block.
    fn scatter_each(&self, all: &[u8], blocks: Blocks<'_>) -> Result<(), Error> {
        if all.len() >= AT_ONCE {
            return self.send_to_all(|place| piece_of(all, blocks.range(place)));
        }
        for step in 1..self.count() {
            let place = self.absolute(step, self.place);
            self.send(&all[blocks.range(place)], place)?;
        }
        Ok(())
    }

    /// Scatters equal blocks along a binomial tree, the reverse of a gather.
    fn scatter_by_tree(
        &self,
        all: &[u8],
        own: Option<&mut [u8]>,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        let (block, relative) = (blocks.length(0), self.relative(root));
        let parent = self.parent_bit(relative);
        let descendants = parent.min(self.count() - relative) as usize;
        if descendants == 1 && relative != 0 {
            return self.receive(own.unwrap_or(&mut []), self.absolute(relative - parent, root));
        }
        let mut scratch = self.scratch(descendants * block);
        let passed = scratch.bytes();
        if relative == 0 {
            let turn = (self.count() - root) as usize * block;
            passed[..turn].copy_from_slice(&all[root as usize * block..]);
            passed[turn..].copy_from_slice(&all[..root as usize * block]);
        } else {
            self.receive(passed, self.absolute(relative - parent, root))?;
        }
        let mut bit = parent;
        while bit > 1 {
            bit /= 2;
            if relative + bit < self.count() {
                let theirs = bit as usize * block..descendants.min(2 * bit as usize) * block;
                self.send(&passed[theirs], self.absolute(relative + bit, root))?;
            }
        }
        if let Some(own) = own {
            own.copy_from_slice(&passed[..block]);
        }
        Ok(())
    }
}
