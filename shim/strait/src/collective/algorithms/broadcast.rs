//! Broadcast.

use crate::collective::Meeting;
use crate::collective::team::Team;
use crate::world::meeting::Levels;
use crate::{CollectiveError, Error};

impl Team<'_> {
    /// Broadcasts from the root to all members; on several nodes, once to each node.
    pub(in crate::collective) fn broadcast_all(
        self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        root: u32,
    ) -> Result<(), Error> {
        if !self.is_on_one_node() {
            return Levels::new(self, root).broadcast(self, meeting, data);
        }
        if self.broadcast_shared(meeting, data, root)? {
            return Ok(());
        }
        self.broadcast(data, root)
    }

    /// Broadcasts from the root to all members, along a binomial tree.
    ///
    /// A scatter and a gather of the pieces (van de Geijn) would move fewer bytes through each
    /// member. It has been slower with 4 and 8 members up to 4 MiB.
    ///
    /// A member that gets a vector of another length than its own tells the members below it, which
    /// would wait for ever: it passes on a message of a length that they do not expect either.
    pub(in crate::collective) fn broadcast(&self, data: &mut [u8], root: u32) -> Result<(), Error> {
        let (count, relative) = (self.count(), self.relative(root));
        let mut bit = self.parent_bit(relative);
        let received = match relative {
            0 => Ok(()),
            _ => self.receive(data, self.absolute(relative - bit, root)),
        };
        let unexpected: &[u8] = if data.is_empty() { &[0] } else { &[] };
        let passed_on = match &received {
            Ok(()) => &*data,
            Err(Error::Collective(CollectiveError::Length { .. })) => unexpected,
            Err(_) => return received,
        };
        while bit > 1 {
            bit /= 2;
            if relative + bit < count {
                self.send(passed_on, self.absolute(relative + bit, root))?;
            }
        }
        received
    }

    /// Returns this member's distance from the root.
    pub(super) const fn relative(&self, root: u32) -> u32 {
        let count = self.count();
        (self.place + count - root) % count
    }

    /// Returns the place of the member at a distance from the root.
    pub(in crate::collective) const fn absolute(&self, relative: u32, root: u32) -> u32 {
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
