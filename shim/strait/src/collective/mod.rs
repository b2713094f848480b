//! Collective operations (MPI-5.0 chapter 6).
//!
//! A barrier uses words in the segment (`[Nemesis07]` §3.4, [`strait_core::shm::Barrier`]) while
//! its group has a slot, and messages otherwise. Members of one node gather, broadcast and reduce
//! short vectors through collective buffers (`shared`). The other operations consist of messages.
//! The folder `algorithms` has them, and chooses them by length and number of members.
//!
//! A barrier of a group on several nodes has three steps: on each node, between the leaders of the
//! nodes, and on each node again. A broadcast goes to each node once, and a short gather or
//! scatter, and a reduce or allreduce of integers, has one message for each node. Most short
//! messages between leaders go through mailboxes (`mail`). Reductions depend only on the places of
//! the members, so neither the length of the vectors nor the mapping of members to nodes changes a
//! result.
//!
//! The messages use the user's context with its top bit set: contexts from 2^31 on belong to
//! Strait.
//!
//! All members give vectors of the same length. Where lengths differ, an operation fails if the
//! members choose the same algorithm, and may never end otherwise.
//!
//! Members of a group call its operations in the same order. When a member dies, every waiting
//! operation ends with [`crate::Fault::PeerFailed`], and so does every later one.

mod algorithms;
mod at_once;
mod blocks;
mod exchanges;
mod group;
mod levels;
mod mail;
mod meeting;
mod operation;
pub(crate) mod raw;
pub(crate) mod raw_group;
mod reductions;
mod scratch;
mod shared;
mod shared_blocks;
mod shared_buffers;
mod split;
mod team;

use core::cell::RefCell;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_platform::Rank;

use crate::world::meeting::MeetingPoint;
use crate::{CollectiveError, Endpoint, Error};
pub use exchanges::{Contribution, InPlace};
pub use group::Group;
use meeting::way;
pub use operation::{Number, Operator, Reduction, TypedOperator, in_pieces};
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
        self.with_meeting(|meeting| meeting.barrier(self.team(), way(self.world().size())))
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
        broadcast(self.team(), self.meeting(), bytes_mut(data), root)
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
    pub fn reduce<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
        root: Rank,
    ) -> Result<(), Error> {
        let op = TypedOperator::new(op)?;
        reductions::reduce(self.team(), self.meeting(), bytes_mut(data), &op, root)
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
    pub fn allreduce<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
    ) -> Result<(), Error> {
        let op = TypedOperator::new(op)?;
        reductions::allreduce(self.team(), self.meeting(), None, bytes_mut(data), &op)
    }

    /// Returns the group of all ranks of the job, in the order of their numbers. It has the
    /// operations that an endpoint has not, such as [`Group::gather`] and [`Group::scan`]. Sends
    /// nothing.
    ///
    /// ```
    /// # strait::World::run_in_process(4, |world| {
    /// let group = world.endpoint().everyone();
    /// let mut squares = [0; 4];
    /// group.allgather(&[world.rank().pow(2)], &mut squares)?;
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// # Ok(()) }).unwrap();
    /// ```
    ///
    /// # Source
    ///
    /// MPI-5.0 §7.2.4, `MPI_COMM_WORLD`.
    #[must_use]
    pub fn everyone(&self) -> Group<'world> {
        let (own, size) = (self.world().rank(), self.world().size());
        Group::new(*self, (0..size).collect(), 0, own)
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
        Ok(Group::new(*self, ranks, tag, place))
    }

    /// Calls `act` with the meeting point of all ranks in this endpoint's context.
    #[inline(always)]
    fn with_meeting<R>(&self, act: impl FnOnce(&mut MeetingPoint) -> R) -> R {
        let mut meetings = self.world().meetings();
        let known = meetings.iter().position(|(context, _)| *context == self.context());
        let at = known.unwrap_or_else(|| {
            meetings.push((self.context(), MeetingPoint::default()));
            meetings.len() - 1
        });
        act(&mut meetings[at].1)
    }

    const fn meeting(&self) -> Meeting<'world> {
        Meeting::Everyone(*self)
    }

    fn team(&self) -> Team<'world> {
        let world = self.world();
        Team::new(world, self.context(), 0, Members::All(world.size()), world.rank())
    }
}

/// Where the members of a team meet.
#[derive(Clone, Copy)]
enum Meeting<'a> {
    /// The meeting point of all ranks in an endpoint's context.
    Everyone(Endpoint<'a>),
    /// The meeting point of a group.
    Group(&'a RefCell<MeetingPoint>),
}

impl Meeting<'_> {
    /// Calls `act` with the meeting point. `act` calls no function of the program, since that might
    /// use the meeting point, too.
    #[inline(always)]
    fn with<R>(self, act: impl FnOnce(&mut MeetingPoint) -> R) -> R {
        match self {
            Self::Everyone(endpoint) => endpoint.with_meeting(act),
            Self::Group(point) => act(&mut point.borrow_mut()),
        }
    }
}

/// Broadcasts through the segment or by messages.
fn broadcast(
    team: Team<'_>,
    meeting: Meeting<'_>,
    data: &mut [u8],
    root: u32,
) -> Result<(), Error> {
    run(team, Some(root), |team| team.broadcast_all(meeting, data, root))
}

/// Runs an operation, unless its root does not exist or a member has died.
#[inline(always)]
fn run<'a>(
    team: Team<'a>,
    root: Option<u32>,
    operation: impl FnOnce(Team<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    if let Some(root) = root {
        team.check_root(root)?;
    }
    team.check_whole()?;
    operation(team).map_err(|error| team.blame(error))
}
