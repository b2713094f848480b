//! A group: some ranks of a job, and the operations among them.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::shm::BarrierAlgorithm;
use strait_platform::Rank;

use super::meeting::way;
use super::team::{Members, Team, bytes_mut};
use super::{Meeting, broadcast};
use crate::world::meeting::MeetingPoint;
use crate::{Endpoint, Error, World};

/// Some ranks of a job, for operations among them: the counterpart of an MPI communicator in the
/// channel. [`Endpoint::group`] makes it. Drop it when no member needs it any more, which releases
/// its slot.
///
/// A root is a place in the group, counted from 0, and not a rank of the job.
#[derive(Debug)]
pub struct Group<'world> {
    pub(super) endpoint: Endpoint<'world>,
    pub(super) ranks: Rc<[Rank]>,
    /// Tag of the group's messages.
    tag: u32,
    place: u32,
    pub(super) meeting: RefCell<MeetingPoint>,
    /// Number of groups that were made of this one for windows.
    windows: Cell<u32>,
    /// Number of the window of which this group has the members, if it is a window's.
    pub(super) window: Option<u32>,
}

impl<'world> Group<'world> {
    pub(super) fn new(endpoint: Endpoint<'world>, ranks: Rc<[Rank]>, tag: u32, place: u32) -> Self {
        let (meeting, windows) = (RefCell::default(), Cell::new(0));
        Self { endpoint, ranks, tag, place, meeting, windows, window: None }
    }

    /// Returns the world of this group.
    pub(crate) const fn world(&self) -> &'world World {
        self.endpoint.world()
    }

    /// Returns a group of the same members in the same places, with its own meeting point. All
    /// members do so.
    pub(super) fn again(&self) -> Self {
        let Self { endpoint, ref ranks, tag, place, .. } = *self;
        Self::new(endpoint, Rc::clone(ranks), tag, place)
    }

    /// Returns the number of the next window that is made of this group. All members agree on it.
    pub(super) fn number_of_window(&self) -> u32 {
        let made = self.windows.get() + 1;
        self.windows.set(made);
        self.tag << 16 | made & 0xffff
    }

    /// Returns the number of the window of which this group has the members. All agree on it.
    pub(crate) const fn window(&self) -> Option<u32> {
        self.window
    }

    /// Returns the rank in each place.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # if ![1, 3].contains(&world.rank()) { return Ok(()); }
    /// let group = endpoint.group(&[1, 3])?;
    /// assert_eq!(group.ranks(), [1, 3]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// Returns this rank's place, counted from 0.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # if ![1, 3].contains(&world.rank()) { return Ok(()); }
    /// let group = endpoint.group(&[1, 3])?;
    /// assert_eq!(group.ranks()[group.place() as usize], world.rank());
    /// # Ok(()) }).unwrap();
    /// ```
    #[must_use]
    pub const fn place(&self) -> u32 {
        self.place
    }

    /// Waits until every member has entered the barrier.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # if ![1, 3].contains(&world.rank()) { return Ok(()); }
    /// let group = endpoint.group(&[1, 3])?;
    /// group.barrier()?;
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Endpoint::barrier`] does.
    pub fn barrier(&self) -> Result<(), Error> {
        self.meeting.borrow_mut().barrier(self.team(), way(self.ranks.len() as u32))
    }

    /// Runs a barrier with a given algorithm in the slot, for measurements. All members ask for the
    /// same one from their first barrier on. Later the group's algorithm is fixed, and this
    /// argument is ignored.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::barrier`] does.
    #[doc(hidden)]
    pub fn barrier_by(&self, way: BarrierAlgorithm) -> Result<(), Error> {
        self.meeting.borrow_mut().barrier(self.team(), way)
    }

    /// Uses messages for barriers from now on, for measurements. All members must call this before
    /// their first barrier.
    #[doc(hidden)]
    pub fn meet_by_messages(&self) {
        self.meeting.borrow_mut().by_messages();
    }

    /// Broadcasts the root's `data` to every member.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # if ![1, 3].contains(&world.rank()) { return Ok(()); }
    /// let group = endpoint.group(&[1, 3])?;
    /// let mut rank = [world.rank()];
    /// group.broadcast(&mut rank, 1)?;
    /// assert_eq!(rank, [3], "place 1 is rank 3");
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Endpoint::broadcast`] does.
    pub fn broadcast<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        broadcast(self.team(), self.meeting(), bytes_mut(data), root)
    }

    pub(super) const fn meeting(&self) -> Meeting<'_> {
        Meeting::Group(&self.meeting)
    }

    pub(super) fn team(&self) -> Team<'_> {
        let members = Members::List(&self.ranks);
        let world = self.endpoint.world();
        Team::new(world, self.endpoint.context(), self.tag, members, self.place)
            .of_window(self.window)
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        let world = self.world();
        self.meeting.get_mut().leave(world);
    }
}
