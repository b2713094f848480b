//! Broadcast.

use super::choice::{BROADCAST_MEMBERS, BROADCAST_PIECES};
use crate::Error;
use crate::collective::blocks::Blocks;
use crate::collective::team::Team;
use crate::world::meeting::Levels;

impl Team<'_> {
    /// Broadcasts from the root to all members; on several nodes, once to each node.
    pub(in crate::collective) fn broadcast_all(
        self,
        data: &mut [u8],
        root: u32,
    ) -> Result<(), Error> {
        if self.is_on_one_node() {
            self.broadcast(data, root)
        } else {
            Levels::new(self, root).broadcast(self, data)
        }
    }

    /// Broadcasts from the root to all members.
    pub(in crate::collective) fn broadcast(&self, data: &mut [u8], root: u32) -> Result<(), Error> {
        if data.len() >= BROADCAST_PIECES && self.count() >= BROADCAST_MEMBERS {
            self.broadcast_in_pieces(data, root)
        } else {
            self.broadcast_by_tree(data, root)
        }
    }

    /// Broadcasts along a binomial tree.
    fn broadcast_by_tree(&self, data: &mut [u8], root: u32) -> Result<(), Error> {
        let (count, relative) = (self.count(), self.relative(root));
        let mut bit = self.parent_bit(relative);
        if relative != 0 {
            self.receive(data, self.absolute(relative - bit, root))?;
        }
        while bit > 1 {
            bit /= 2;
            if relative + bit < count {
                self.send(data, self.absolute(relative + bit, root))?;
            }
        }
        Ok(())
    }

    /// Scatters the data, and gathers it everywhere (van de Geijn). The last blocks may be shorter
    /// than the others.
    fn broadcast_in_pieces(&self, data: &mut [u8], root: u32) -> Result<(), Error> {
        let (bytes, count) = (data.len(), self.count() as usize);
        let piece = bytes.div_ceil(count);
        let ranges: Vec<_> =
            (0..count).map(|at| (at * piece).min(bytes)..((at + 1) * piece).min(bytes)).collect();
        let blocks = Blocks::Ranges { ranges: &ranges, unit: 1 };
        if self.place == root {
            self.scatter_each(data, blocks)?;
        } else {
            self.receive(&mut data[blocks.range(self.place)], root)?;
        }
        self.allgather_ring(data, blocks)
    }

    /// Returns this member's distance from the root.
    pub(super) const fn relative(&self, root: u32) -> u32 {
        let count = self.count();
        (self.place + count - root) % count
    }

    /// Returns the place of the member at a distance from the root.
    pub(super) const fn absolute(&self, relative: u32, root: u32) -> u32 {
        (relative + root) % self.count()
    }

    /// Returns the bit that leads from a distance to its parent in a binomial tree. The bits below
    /// it lead to the children, those with most descendants first.
    pub(super) const fn parent_bit(&self, relative: u32) -> u32 {
        match relative {
            0 => self.count().next_power_of_two(),
            place => place & place.wrapping_neg(),
        }
    }
}
