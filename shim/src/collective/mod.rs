//! Collective operations: what an MPI channel is asked for besides messages.
//!
//! A barrier meets at words in the segment (`[Nemesis07]` §3.4, [`strait_core::shm::Barrier`]) as long as there are slots for
//! its group, and goes by messages otherwise. The others are made of messages: trees and recursive doubling, for vectors
//! that are short enough for the time of a message to be all that counts.
//!
//! Where a group is on several nodes, a barrier meets on each, then those that speak for their nodes by messages, then on each
//! once more; and a broadcast goes to each node once. Reductions go by the places of the members alone, so that where they are
//! does not change a result.
//!
//! The messages travel in the user's context with its top bit set: contexts from 2^31 on are Strait's own.
//!
//! Members of a group call its operations in the same order. When one dies, every operation that waits ends with
//! [`crate::Fault::PeerFailed`], and so does every later one.

mod error;
mod levels;
mod meeting;
mod operation;
mod registry;
mod team;

use core::cell::RefCell;
use std::rc::Rc;

use bytemuck::{AnyBitPattern, NoUninit};
use strait_core::reduce::Op;
use strait_core::shm::Way;

use crate::{Endpoint, Error, Rank, World};
pub use error::CollectiveError;
pub(crate) use meeting::Meeting;
use operation::Combine;
pub use operation::Number;
pub(crate) use registry::Registry;
pub(crate) use team::INTERNAL;
use team::{Members, Team, bytes_mut};

/// Most members of a group that meets at one word, which both counts and signals. More would fetch the line from each
/// other while they wait, and slow down those who come: they look at a second one (`[Nemesis07]` §3.4).
const WORD_MAX: u32 = 2;

/// How the barriers of `members` ranks go.
const fn way(members: u32) -> Way {
    if members <= WORD_MAX { Way::Word } else { Way::Signal }
}

impl<'world> Endpoint<'world> {
    /// Waits until every rank of the job has come here.
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
            meetings.push((self.context(), Meeting::Nowhere));
            meetings.len() - 1
        });
        meetings[at].1.barrier(self.team(), way(self.world().size()))
    }

    /// Gives the root's `data` to every rank of the job.
    ///
    /// # Errors
    ///
    /// [`Error::Collective`] when the root does not exist or lengths differ; [`Error::Fault`] when a rank died or left.
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

    /// Combines the vectors of all ranks, element by element; `data` at the root becomes the result, and is undefined
    /// elsewhere. The result does not depend on who is the root, nor on anything but the vectors.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::broadcast`]; [`Error::Collective`] also when `op` does not suit `T`.
    ///
    /// # Source
    ///
    /// MPI-4.1 §6.9.1, `MPI_REDUCE` with `MPI_IN_PLACE`.
    pub fn reduce<T: Number>(&self, data: &mut [T], op: Op, root: Rank) -> Result<(), Error> {
        reduce(self.team(), data, op, root)
    }

    /// As [`Endpoint::reduce`], with the result for every rank: the same to the last bit.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::reduce`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §6.9.6, `MPI_ALLREDUCE` with `MPI_IN_PLACE`.
    pub fn allreduce<T: Number>(&self, data: &mut [T], op: Op) -> Result<(), Error> {
        allreduce(self.team(), data, op)
    }

    /// A group of some ranks, for operations among them in this endpoint's context. `ranks` gives each its place, and is
    /// the same at every member. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`CollectiveError`]: a rank does not exist or is named twice, or this rank is not named; or the messages of the group would
    /// have the names of another group's messages.
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
        Ok(Group { endpoint: *self, ranks, tag, place, meeting: RefCell::default() })
    }

    fn team(&self) -> Team<'world> {
        let world = self.world();
        Team::new(world, self.context(), 0, Members::All(world.size()), world.rank())
    }
}

/// Some ranks of a job, for operations among them: what an MPI communicator is to the channel. Made by
/// [`Endpoint::group`]; dropped when no member needs it any more, which gives its slot back.
///
/// A root is a place in the group, from 0, and not a rank of the job.
#[derive(Debug)]
pub struct Group<'world> {
    endpoint: Endpoint<'world>,
    ranks: Rc<[Rank]>,
    /// Of its messages.
    tag: u32,
    place: u32,
    meeting: RefCell<Meeting>,
}

impl<'world> Group<'world> {
    /// The world of this group.
    pub(crate) const fn world(&self) -> &'world World {
        self.endpoint.world()
    }

    /// The same members in the same places, with a meeting of their own. All of them do so.
    pub(crate) fn again(&self) -> Self {
        let Self { endpoint, ref ranks, tag, place, .. } = *self;
        Self { endpoint, ranks: Rc::clone(ranks), tag, place, meeting: RefCell::default() }
    }

    /// The rank in each place.
    #[must_use]
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// This rank's place, from 0.
    #[must_use]
    pub const fn place(&self) -> u32 {
        self.place
    }

    /// Waits until every member has come here.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::barrier`].
    pub fn barrier(&self) -> Result<(), Error> {
        self.meeting.borrow_mut().barrier(self.team(), way(self.ranks.len() as u32))
    }

    /// As [`Group::barrier`], by a given way in the slot: for measurements. All members ask for the same from their first
    /// barrier on; later the group's way is fixed, and this is ignored.
    ///
    /// # Errors
    ///
    /// As [`Group::barrier`].
    #[doc(hidden)]
    pub fn barrier_by(&self, way: Way) -> Result<(), Error> {
        self.meeting.borrow_mut().barrier(self.team(), way)
    }

    /// Meets by messages from now on: for measurements. All members say so before their first barrier.
    #[doc(hidden)]
    pub fn meet_by_messages(&self) {
        self.meeting.borrow_mut().by_messages();
    }

    /// Gives the root's `data` to every member.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::broadcast`].
    pub fn broadcast<T: NoUninit + AnyBitPattern>(
        &self,
        data: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        broadcast(self.team(), data, root)
    }

    /// Combines the vectors of all members, as [`Endpoint::reduce`] does.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::reduce`].
    pub fn reduce<T: Number>(&self, data: &mut [T], op: Op, root: u32) -> Result<(), Error> {
        reduce(self.team(), data, op, root)
    }

    /// Combines the vectors of all members for all, as [`Endpoint::allreduce`] does.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::reduce`].
    pub fn allreduce<T: Number>(&self, data: &mut [T], op: Op) -> Result<(), Error> {
        allreduce(self.team(), data, op)
    }

    fn team(&self) -> Team<'_> {
        let members = Members::List(&self.ranks);
        Team::new(self.endpoint.world(), self.endpoint.context(), self.tag, members, self.place)
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.meeting.get_mut().leave(self.endpoint.world());
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
