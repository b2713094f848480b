//! Groups that are made of others.

use strait_core::reduce::Op;

use super::Group;
use crate::Error;

/// The colour of a member that takes part in no new group.
const NO_COLOUR: i64 = -1;

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
        let world = self.world();
        let own = colour.map_or(NO_COLOUR, i64::from);
        let editions = world.groups().editions();
        let mut all = vec![[0; 3]; self.ranks.len()];
        self.allgather(&[[own, key, editions.into()]], &mut all)?;
        let mut edition = all.iter().fold(0, |most, [.., theirs]| most.max(*theirs)) as u32;
        let mut chosen: Vec<_> =
            (0..all.len()).filter(|place| all[*place][0] == own && own != NO_COLOUR).collect();
        chosen.sort_by_key(|place| (all[*place][1], *place));
        let ranks: Vec<_> = chosen.iter().map(|place| self.ranks[*place]).collect();
        let place = chosen.iter().position(|place| *place as u32 == self.place());
        loop {
            // Another group of some member may have the tag: all then try the next edition.
            edition += 1;
            let context = self.endpoint.context();
            let added = place.map(|_| world.groups().add_edition(context, &ranks, edition));
            let mut free = [u8::from(!matches!(added, Some(Err(_))))];
            self.allreduce(&mut free, Op::Min)?;
            if free == [0] {
                continue;
            }
            let (Some(place), Some(Ok((ranks, tag)))) = (place, added) else { return Ok(None) };
            return Ok(Some(Self::new(self.endpoint, ranks, tag, place as u32)));
        }
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
        let copy = self.split(Some(0), self.place().into())?;
        // Every member has a colour.
        Ok(copy.unwrap_or_else(|| self.again()))
    }
}
