//! The barriers of a group: on shared words where it got a slot, by messages otherwise.

use core::ptr::NonNull;

use strait_core::layout::{BARRIER_SLOTS, Corrupt};
use strait_core::shm::{Barrier, BarrierSlot, Way};
use strait_core::sync::spin_hint;

use super::team::{Team, bytes_mut};
use crate::{Error, World};

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
    /// There was no slot, or they are on several nodes.
    Messages,
    /// At words in the segment.
    Slot(Place),
}

/// A group's slot and this member's view of it.
#[derive(Debug)]
pub(crate) struct Place {
    slot: NonNull<BarrierSlot>,
    barrier: Barrier,
    members: u32,
    until_progress: u32,
}

impl Meeting {
    /// Waits until every member has come here.
    pub(super) fn barrier(&mut self, team: Team<'_>, way: Way) -> Result<(), Error> {
        let met = match self {
            _ if team.count() == 1 => Ok(()),
            Self::Slot(place) => place.barrier(team),
            Self::Messages => team.disseminate(),
            Self::Nowhere if !team.is_on_one_node() => {
                self.by_messages();
                team.disseminate()
            }
            Self::Nowhere => agree(team, way).map(|meeting| *self = meeting),
        };
        met.map_err(|error| team.blame(error))
    }

    /// Goes by messages from now on, although there may be a slot. All members say so before their first barrier.
    pub(super) fn by_messages(&mut self) {
        *self = Self::Messages;
    }

    /// Leaves the slot, if there is one. The world that it was made in still has its segment.
    pub(crate) fn leave(&mut self) {
        if let Self::Slot(Place { slot, members, .. }) = core::mem::take(self) {
            // SAFETY: by the contract above the segment is still mapped.
            unsafe { slot.as_ref() }.leave(members);
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
    // One more than the slot's number; 0 is none.
    let mut found = [0];
    if team.place == 0 {
        found[0] = claim(team.world, team.key()).map_or(0, |slot| slot + 1);
    } else {
        team.send(&[], team.place - bit)?;
    }
    team.broadcast(bytes_mut(&mut found), 0)?;
    let Some(number) = found[0].checked_sub(1) else { return Ok(Meeting::Messages) };
    let slot = team.world.segment().barrier_slot(number);
    // SAFETY: the world keeps its segment mapped.
    let slot = slot.filter(|slot| unsafe { slot.as_ref() }.belongs_to(team.key()));
    let slot = slot.ok_or(Error::Corrupt(Corrupt::BarrierSlot { found: number }))?;
    let barrier = Barrier::new(way, team.place, team.count());
    Ok(Meeting::Slot(Place { slot, barrier, members: team.count(), until_progress: 0 }))
}

/// A slot that is free now, if there is one.
fn claim(world: &World, key: u64) -> Option<u32> {
    let segment = world.segment();
    (0..BARRIER_SLOTS).find(|number| {
        // SAFETY: the world keeps its segment mapped.
        segment.barrier_slot(*number).is_some_and(|slot| unsafe { slot.as_ref() }.claim(key))
    })
}

impl Place {
    #[inline]
    fn barrier(&mut self, team: Team<'_>) -> Result<(), Error> {
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
        let outcome = team.world.wait_until(|| {
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
