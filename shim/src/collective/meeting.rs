//! The barriers of a group: on shared words where it got a slot, by messages otherwise; on several nodes, both.

use core::ptr::NonNull;

use strait_core::layout::{BARRIER_SLOTS, Corrupt, Life, Segment};
use strait_core::shm::{Barrier, BarrierSlot, Ranks, Seats, Way};
use strait_core::sync::spin_hint;

use super::levels::Places;
use super::team::{Team, bytes_mut};
use crate::{Error, Rank, World};

/// Looks at the words before everything else is looked at, too: longer than a line takes between far processors.
const LOOKS: u32 = 200;

/// Barriers that end at once between two looks at everything else, so that none starves.
const BARRIERS_PER_PROGRESS: u32 = 64;

/// Where the members of a group meet.
#[derive(Debug, Default)]
pub(crate) enum Meeting {
    /// They have not met yet: the first barrier agrees on a place.
    #[default]
    Nowhere,
    /// There was no slot.
    Messages,
    /// On several nodes.
    Nodes(Places),
    /// At words in the segment.
    Slot(Place),
}

/// A group's slot and this member's view of it.
#[derive(Debug)]
pub(crate) struct Place {
    slot: NonNull<BarrierSlot>,
    number: u32,
    barrier: Barrier,
    until_progress: u32,
    /// Whether a barrier has failed.
    gave_up: bool,
}

impl Meeting {
    /// Waits until every member has come here.
    #[inline]
    pub(super) fn barrier(&mut self, team: Team<'_>, way: Way) -> Result<(), Error> {
        let met = match self {
            Self::Slot(place) if !place.gave_up => place.barrier(&team),
            _ => self.barrier_elsewhere(team, way),
        };
        met.map_err(|error| self.give_up(team, error))
    }

    /// Ends a barrier that did not come about. This member enters no other in the slot as long as one has died: its entries would
    /// be taken for those of a member that is still to come.
    #[cold]
    fn give_up(&mut self, team: Team<'_>, error: Error) -> Error {
        if let Self::Slot(place) = self {
            place.gave_up = true;
        }
        team.blame(error)
    }

    /// As [`Meeting::barrier`], without a slot, or before there is one.
    #[inline(never)]
    fn barrier_elsewhere(&mut self, team: Team<'_>, way: Way) -> Result<(), Error> {
        match self {
            _ if team.count() == 1 => Ok(()),
            Self::Slot(place) => {
                team.check_whole()?;
                place.barrier(&team)
            }
            Self::Messages => {
                team.check_whole()?;
                team.disseminate()
            }
            Self::Nodes(places) => places.barrier(team),
            Self::Nowhere if !team.is_on_one_node() => {
                let mut places = Places::new(team);
                let met = places.barrier(team);
                *self = Self::Nodes(places);
                met
            }
            Self::Nowhere => {
                *self = agree(team, way)?;
                Ok(())
            }
        }
    }

    /// Goes by messages from now on, although there may be a slot. All members say so before their first barrier.
    pub(super) fn by_messages(&mut self) {
        *self = Self::Messages;
    }

    /// Leaves the slot, if there is one. `world` is the one that it was made in.
    pub(crate) fn leave(&mut self, world: &World) {
        match core::mem::take(self) {
            Self::Slot(Place { number, .. }) => leave(world, number),
            Self::Nodes(mut places) => places.on_node().leave(world),
            Self::Nowhere | Self::Messages => {}
        }
    }
}

/// The first barrier of a group: everybody reports to the leader, in place 0, who looks for a slot meanwhile, and the
/// word that all have come carries its number. So all agree, and nobody goes to the slot of a group that has left it.
fn agree(team: Team<'_>, way: Way) -> Result<Meeting, Error> {
    let mut bit = 1;
    while bit < team.count() && team.place & bit == 0 {
        if team.place + bit < team.count() {
            team.receive(&mut [], team.place + bit)?;
        }
        bit *= 2;
    }
    // One more than the slot's number, and which claim of it (upper half); 0 is none.
    let mut found = [0_u64];
    if team.place == 0 {
        let claimed = claim(team.world);
        found[0] = claimed.map_or(0, |(slot, claim)| u64::from(claim) << 32 | u64::from(slot + 1));
        if let Err(error) = team.broadcast(bytes_mut(&mut found), 0) {
            claimed.into_iter().for_each(|(slot, _)| leave(team.world, slot));
            return Err(error);
        }
    } else {
        team.send(&[], team.place - bit)?;
        team.broadcast(bytes_mut(&mut found), 0)?;
    }
    let Some(number) = (found[0] as u32).checked_sub(1) else { return Ok(Meeting::Messages) };
    let slot = team.world.segment().barrier_slot(number);
    let slot = slot.ok_or(Error::Corrupt(Corrupt::BarrierSlot { found: number }))?;
    if team.place != 0 {
        seats(&team.world.segment(), team.world.rank()).take(number);
        // SAFETY: the world keeps its segment mapped.
        if !unsafe { slot.as_ref() }.join((found[0] >> 32) as u32) {
            leave(team.world, number);
            return Ok(Meeting::Messages);
        }
    }
    let barrier = Barrier::new(way, team.place, team.count());
    Ok(Meeting::Slot(Place { slot, number, barrier, until_progress: 0, gave_up: false }))
}

/// A slot that is free now, if there is one, and which claim of it this is.
fn claim(world: &World) -> Option<(u32, u32)> {
    let (segment, leader) = (world.segment(), world.rank());
    (0..BARRIER_SLOTS).find_map(|number| {
        let slot = segment.barrier_slot(number)?;
        let others = Others { segment, leader, slot: number };
        // SAFETY: the world keeps its segment mapped.
        Some((number, unsafe { slot.as_ref() }.claim(leader, &others)?))
    })
}

/// Gives up this rank's seat in a slot.
fn leave(world: &World, slot: u32) {
    seats(&world.segment(), world.rank()).leave(slot);
}

fn seats(segment: &Segment, rank: Rank) -> &Seats {
    &segment.rank_block(rank).liveness.seats
}

/// The ranks of the node, as a leader that claims a slot sees them.
struct Others {
    segment: Segment,
    leader: Rank,
    slot: u32,
}

impl Ranks for Others {
    fn sit(&self) -> bool {
        (0..self.segment.ranks())
            .any(|rank| seats(&self.segment, rank).has(self.slot) && self.lives(rank))
    }

    fn lives(&self, rank: Rank) -> bool {
        // A number that is no rank was written by nobody who lives.
        rank < self.segment.ranks() && self.segment.rank_block(rank).liveness.state() <= Life::Alive
    }

    fn seat_leader(&self) {
        seats(&self.segment, self.leader).take(self.slot);
    }
}

impl Place {
    #[inline]
    fn barrier(&mut self, team: &Team<'_>) -> Result<(), Error> {
        // SAFETY: the team's world keeps the segment mapped.
        let slot = unsafe { self.slot.as_ref() };
        if self.barrier.enter(slot) {
            team.world.wake_sleepers(team.others());
        }
        for _ in 0..LOOKS.min(team.world.spin().looks()) {
            if self.barrier.is_over(slot) {
                return self.progress_sometimes(team.world);
            }
            spin_hint();
        }
        self.wait(team)
    }

    /// Waits with patience.
    #[inline(never)]
    fn wait(&mut self, team: &Team<'_>) -> Result<(), Error> {
        // SAFETY: as above.
        let slot = unsafe { self.slot.as_ref() };
        let what = || team.barrier_wait();
        let outcome = team.world.wait_until(what, || {
            // In this order: what a member did comes before its end.
            let loss = team.loss();
            if self.barrier.is_over(slot) { Some(Ok(())) } else { loss.map(Err) }
        })?;
        Ok(outcome?)
    }

    #[inline(always)]
    fn progress_sometimes(&mut self, world: &World) -> Result<(), Error> {
        match self.until_progress.checked_sub(1) {
            Some(less) => self.until_progress = less,
            None => {
                self.until_progress = BARRIERS_PER_PROGRESS;
                world.progress()?;
            }
        }
        Ok(())
    }
}
