//! Collective operations: those that an MPI channel needs besides messages.
//!
//! A barrier uses words in the segment (`[Nemesis07]` §3.4, [`strait_core::shm::Barrier`]) while
//! its group has a slot, and messages otherwise. The other operations consist of messages: trees
//! and recursive doubling. These suit short vectors, for which only the number of messages in a row
//! counts.
//!
//! A barrier of a group on several nodes has three steps: on each node, by messages between the
//! leaders of the nodes, and on each node again. A broadcast goes to each node once. Reductions
//! depend only on the places of the members, so the mapping of members to nodes does not change a
//! result.
//!
//! The messages use the user's context with its top bit set: contexts from 2^31 on belong to
//! Strait.
//!
//! Members of a group call its operations in the same order. When a member dies, every waiting
//! operation ends with [`crate::Fault::PeerFailed`], and so does every later one.

mod levels;
mod meeting;
mod operation;
mod team;

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::reduce::Op;
use strait_core::shm::BarrierAlgorithm;
use strait_platform::Rank;

use crate::world::meeting::MeetingPoint;
use crate::{CollectiveError, Endpoint, Error, World};
use meeting::way;
use operation::Combine;
pub use operation::Number;
use team::{Members, Team, bytes_mut};

impl<'world> Endpoint<'world> {
    /// Waits until every rank of the job has entered the barrier.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let arrived = AtomicU32::new(0);
    /// # strait::World::run_in_process(3, |world| {
    /// arrived.fetch_add(1, Ordering::Relaxed);
    /// world.endpoint().barrier()?;
    /// assert_eq!(arrived.load(Ordering::Relaxed), 3);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Fault`] when a rank died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §6.3, `MPI_BARRIER`.
    #[inline]
    pub fn barrier(&self) -> Result<(), Error> {
        let mut meetings = self.world().meetings();
        let known = meetings.iter().position(|(context, _)| *context == self.context());
        let at = known.unwrap_or_else(|| {
            meetings.push((self.context(), MeetingPoint::Nowhere));
            meetings.len() - 1
        });
        meetings[at].1.barrier(self.team(), way(self.world().size()))
    }

    /// Broadcasts the root's `data` to every rank of the job.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// let mut numbers = if world.rank() == 2 { [1.5, 2.5] } else { [0.0; 2] };
    /// endpoint.broadcast(&mut numbers, 2)?;
    /// assert_eq!(numbers, [1.5, 2.5]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Collective`] when the root does not exist or lengths differ; [`Error::Fault`] when
    /// a rank died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §6.4, `MPI_BCAST`.
    pub fn broadcast<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        root: Rank,
    ) -> Result<(), Error> {
        broadcast(self.team(), data, root)
    }

    /// Combines the vectors of all ranks, element by element. At the root, `data` becomes the
    /// result; elsewhere it is undefined. The result depends only on the vectors, and not on the
    /// root.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # use strait::Op;
    /// let mut largest = [world.rank() * 10];
    /// endpoint.reduce(&mut largest, Op::Max, 0)?;
    /// if world.rank() == 0 {
    ///     assert_eq!(largest, [30]);
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Endpoint::broadcast`] does; [`Error::Collective`] also when `op` is not defined
    /// for `T`.
    ///
    /// # Source
    ///
    /// MPI-4.1 §6.9.1, `MPI_REDUCE` with `MPI_IN_PLACE`.
    pub fn reduce<T: Number>(&self, data: &mut [T], op: Op, root: Rank) -> Result<(), Error> {
        reduce(self.team(), data, op, root)
    }

    /// Combines the vectors as [`Endpoint::reduce`] does, and gives every rank the same result to
    /// the last bit.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # use strait::Op;
    /// let mut sum = [1.0, f64::from(world.rank())];
    /// endpoint.allreduce(&mut sum, Op::Sum)?;
    /// assert_eq!(sum, [4.0, 6.0]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Endpoint::reduce`] does.
    ///
    /// # Source
    ///
    /// MPI-4.1 §6.9.6, `MPI_ALLREDUCE` with `MPI_IN_PLACE`.
    pub fn allreduce<T: Number>(&self, data: &mut [T], op: Op) -> Result<(), Error> {
        allreduce(self.team(), data, op)
    }

    /// Makes a group of some ranks, for operations among them in this endpoint's context. `ranks`
    /// gives each rank its place, and is equal at every member. Sends nothing yet.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// let odd_ones = [1, 3];
    /// if odd_ones.contains(&world.rank()) {
    ///     let group = endpoint.group(&odd_ones)?;
    ///     group.barrier()?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`CollectiveError`] when a rank does not exist or is named twice, or this rank is not named.
    /// Also when the group's messages would have the same names as those of another group.
    ///
    /// # Source
    ///
    /// MPI-4.1 §7.3.2, `MPI_GROUP_INCL`.
    pub fn group(&self, ranks: &[Rank]) -> Result<Group<'world>, CollectiveError> {
        let (own, size) = (self.world().rank(), self.world().size());
        let mut named = vec![false; size as usize];
        for &rank in ranks {
            let Some(named) = named.get_mut(rank as usize) else {
                return Err(CollectiveError::NoSuchRank { rank, ranks: size });
            };
            if core::mem::replace(named, true) {
                return Err(CollectiveError::Twice { rank });
            }
        }
        let place = ranks.iter().position(|rank| *rank == own);
        let place = place.ok_or(CollectiveError::NotAMember { rank: own })? as u32;
        let (ranks, tag) = self.world().groups().add(self.context(), ranks)?;
        let (meeting, windows) = (RefCell::default(), Cell::new(0));
        Ok(Group { endpoint: *self, ranks, tag, place, meeting, windows, window: None })
    }

    fn team(&self) -> Team<'world> {
        let world = self.world();
        Team::new(world, self.context(), 0, Members::All(world.size()), world.rank())
    }
}

/// Some ranks of a job, for operations among them: the counterpart of an MPI communicator in the
/// channel. [`Endpoint::group`] makes it. Drop it when no member needs it any more, which releases
/// its slot.
///
/// A root is a place in the group, counted from 0, and not a rank of the job.
#[derive(Debug)]
pub struct Group<'world> {
    endpoint: Endpoint<'world>,
    ranks: Rc<[Rank]>,
    /// Tag of the group's messages.
    tag: u32,
    place: u32,
    meeting: RefCell<MeetingPoint>,
    /// Number of groups that were made of this one for windows.
    windows: Cell<u32>,
    /// Number of the window of which this group has the members, if it is a window's.
    window: Option<u32>,
}

impl<'world> Group<'world> {
    /// Returns the world of this group.
    pub(crate) const fn world(&self) -> &'world World {
        self.endpoint.world()
    }

    /// Returns a group of the same members in the same places, with its own meeting point, for a
    /// window. All members do so.
    pub(crate) fn again(&self) -> Self {
        let Self { endpoint, ref ranks, tag, place, .. } = *self;
        let made = self.windows.get() + 1;
        self.windows.set(made);
        let (meeting, windows) = (RefCell::default(), Cell::new(0));
        let window = Some(tag << 16 | made & 0xffff);
        Self { endpoint, ranks: Rc::clone(ranks), tag, place, meeting, windows, window }
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
        broadcast(self.team(), data, root)
    }

    /// Combines the vectors of all members, as [`Endpoint::reduce`] does.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # if ![1, 3].contains(&world.rank()) { return Ok(()); }
    /// # use strait::Op;
    /// let group = endpoint.group(&[1, 3])?;
    /// let mut sum = [world.rank()];
    /// group.reduce(&mut sum, Op::Sum, 0)?;
    /// if group.place() == 0 {
    ///     assert_eq!(sum, [4]);
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Endpoint::reduce`] does.
    pub fn reduce<T: Number>(&self, data: &mut [T], op: Op, root: u32) -> Result<(), Error> {
        reduce(self.team(), data, op, root)
    }

    /// Combines the vectors of all members, with the result at all of them, as
    /// [`Endpoint::allreduce`] does.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// # if ![1, 3].contains(&world.rank()) { return Ok(()); }
    /// # use strait::Op;
    /// let group = endpoint.group(&[1, 3])?;
    /// let mut sum = [world.rank()];
    /// group.allreduce(&mut sum, Op::Sum)?;
    /// assert_eq!(sum, [4]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Endpoint::reduce`] does.
    pub fn allreduce<T: Number>(&self, data: &mut [T], op: Op) -> Result<(), Error> {
        allreduce(self.team(), data, op)
    }

    /// Returns the number of the window of which this group has the members. All agree on it.
    pub(crate) const fn window(&self) -> Option<u32> {
        self.window
    }

    fn team(&self) -> Team<'_> {
        let members = Members::List(&self.ranks);
        let world = self.endpoint.world();
        Team::new(world, self.endpoint.context(), self.tag, members, self.place)
            .of_window(self.window)
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        let world = self.world();
        self.meeting.get_mut().leave(&world.segment(), world.rank());
    }
}

fn broadcast<T: NoUninit + AnyBitPattern>(
    team: Team<'_>,
    data: &mut [T],
    root: u32,
) -> Result<(), Error> {
    team.check_root(root)?;
    team.check_whole()?;
    team.broadcast_all(bytes_mut(data), root).map_err(|error| team.blame(error))
}

fn reduce<T: Number>(team: Team<'_>, data: &mut [T], op: Op, root: u32) -> Result<(), Error> {
    team.check_root(root)?;
    team.check_whole()?;
    team.reduce(data, Combine::new(op)?, root).map_err(|error| team.blame(error))
}

fn allreduce<T: Number>(team: Team<'_>, data: &mut [T], op: Op) -> Result<(), Error> {
    team.check_whole()?;
    team.allreduce(data, Combine::new(op)?).map_err(|error| team.blame(error))
}
