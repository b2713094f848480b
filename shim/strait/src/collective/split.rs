//! Groups that are made of others.

use std::rc::Rc;

use strait_core::reduce::Op;
use strait_platform::Rank;

use super::Group;
use crate::Error;

/// The colour of a member that takes part in no new group.
const NO_COLOUR: i64 = -1;

/// The members of a new group, and its tag.
type Added = (Rc<[Rank]>, u32);

impl<'world> Group<'world> {
    /// Makes groups of the members that give the same `colour`. In each, members with lower `key`
    /// come first, and those with equal keys in the order of this group. A member that gives no
    /// colour gets no group. All members call this together.
    ///
    /// ```
    /// # strait::World::run_in_process(5, |world| {
    /// let all = world.endpoint().everyone();
    /// // Even and odd ranks, the last ones first.
    /// let group = all.split(Some(world.rank() % 2), -i64::from(world.rank()))?.unwrap();
    /// assert_eq!(group.ranks(), [&[4, 2, 0][..], &[3, 1]][world.rank() as usize % 2]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::allgather`] does.
    ///
    /// # Source
    ///
    /// MPI-5.0 §7.4.2, `MPI_COMM_SPLIT`. The new groups have this group's context, and tags of
    /// their own.
    pub fn split(&self, colour: Option<u32>, key: i64) -> Result<Option<Self>, Error> {
        let own = colour.map_or(NO_COLOUR, i64::from);
        let editions = self.world().groups().editions();
        let mut all = vec![[0; 3]; self.ranks.len()];
        self.allgather(&[[own, key, editions.into()]], &mut all)?;
        let edition = all.iter().fold(0, |most, [.., theirs]| most.max(*theirs)) as u32;
        let mut chosen: Vec<_> =
            (0..all.len()).filter(|place| all[*place][0] == own && own != NO_COLOUR).collect();
        chosen.sort_by_key(|place| (all[*place][1], *place));
        let ranks: Vec<_> = chosen.iter().map(|place| self.ranks[*place]).collect();
        let place = chosen.iter().position(|place| *place as u32 == self.place());
        let added = self.add_after(edition, place.map(|_| &*ranks))?;
        Ok(place
            .zip(added)
            .map(|(place, (ranks, tag))| Self::new(self.endpoint, ranks, tag, place as u32)))
    }

    /// Adds a group of these ranks for each member that gives some. Returns the members and the
    /// tag. All members call this with the same `edition`, and later ones were not used by any.
    fn add_after(&self, mut edition: u32, ranks: Option<&[Rank]>) -> Result<Option<Added>, Error> {
        loop {
            // Another group of some member may have the tag: all then try the next edition.
            edition += 1;
            let context = self.endpoint.context();
            let add = |ranks| self.world().groups().add_edition(context, ranks, edition);
            let added = ranks.map(add);
            let mut free = [u8::from(!matches!(added, Some(Err(_))))];
            self.allreduce(&mut free, Op::Min)?;
            if free != [0] {
                return Ok(added.and_then(Result::ok));
            }
        }
    }

    /// Returns a duplicate for a window, so that threads may synchronise on several windows at a
    /// time (MPI-5.0 §11.6). All members call this together.
    pub(crate) fn for_window(&self) -> Result<Self, Error> {
        let mut group = self.duplicate()?;
        group.window = Some(self.number_of_window());
        Ok(group)
    }

    /// Makes a group of the same members in the same places. Its messages do not mix with those
    /// of this group. All members call this together.
    ///
    /// ```
    /// # strait::World::run_in_process(3, |world| {
    /// let group = world.endpoint().everyone();
    /// let other = group.duplicate()?;
    /// assert_eq!(other.ranks(), group.ranks());
    /// other.barrier()?;
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Group::split`] does.
    ///
    /// # Source
    ///
    /// MPI-5.0 §7.4.2, `MPI_COMM_DUP`.
    pub fn duplicate(&self) -> Result<Self, Error> {
        let mut edition = [self.world().groups().editions()];
        self.allreduce(&mut edition, Op::Max)?;
        let added = self.add_after(edition[0], Some(&self.ranks))?;
        // Every member has given ranks.
        Ok(added.map_or_else(
            || self.again(),
            |(ranks, tag)| Self::new(self.endpoint, ranks, tag, self.place()),
        ))
    }
}
