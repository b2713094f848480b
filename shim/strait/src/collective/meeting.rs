//! The barriers of a group. A group with a slot uses shared words, a group without one uses
//! messages, and a group on several nodes uses both.

use strait_core::layout::{BARRIER_SLOTS, Corrupt, Life, Segment};
use strait_core::shm::{Barrier, BarrierAlgorithm, Exchange, Ranks};
use strait_core::sync::spin_hint;
use strait_platform::Rank;
use strait_platform::backoff::BARRIERS_PER_PROGRESS;

use super::team::{Team, bytes_mut};
use crate::world::meeting::{BufferState, GroupBarrier, MeetingPoint, Places, seats};
use crate::{Error, World};

/// Largest number of members that meet at one word, which both counts and signals. More members
/// would fetch the line from each other while they wait and so slow down arrivals. They therefore
/// wait on a second word (`[Nemesis07]` §3.4).
const WORD_MAX: u32 = 2;

/// Number of barriers by messages after which the members look for a slot again, which another
/// group may have left. They look again after twice as many, and so on.
const BARRIERS_PER_SEARCH: u32 = 16;

/// A group that has found no slot.
const BY_MESSAGES: MeetingPoint = MeetingPoint::Messages { barriers: Some(0) };

/// Returns the algorithm for the barriers of `members` ranks.
pub(super) const fn way(members: u32) -> BarrierAlgorithm {
    if members <= WORD_MAX { BarrierAlgorithm::Word } else { BarrierAlgorithm::Signal }
}

impl MeetingPoint {
    /// Waits until every member has entered the barrier.
    #[inline]
    pub(super) fn barrier(&mut self, team: Team<'_>, way: BarrierAlgorithm) -> Result<(), Error> {
        let met = match self {
            Self::Slot(place) if !place.gave_up => place.barrier(&team),
            _ => self.barrier_elsewhere(team, way),
        };
        met.map_err(|error| self.give_up(team, error))
    }

    /// Ends a barrier that failed. Afterwards this member enters no other in the slot while a dead
    /// member belongs to the group. Its entry would count as that of a member that is still to
    /// come.
    #[cold]
    pub(super) fn give_up(&mut self, team: Team<'_>, error: Error) -> Error {
        if let Self::Slot(place) = self {
            place.gave_up = true;
        }
        team.blame(error)
    }

    /// Enters a barrier without a slot, before there is one, or after one has failed.
    #[inline(never)]
    fn barrier_elsewhere(&mut self, team: Team<'_>, way: BarrierAlgorithm) -> Result<(), Error> {
        match self {
            _ if team.count() == 1 => Ok(()),
            Self::Slot(place) => {
                team.check_whole()?;
                place.barrier(&team)
            }
            Self::Messages { barriers } => {
                let due = barriers.as_mut().is_some_and(|barriers| {
                    *barriers = barriers.wrapping_add(1);
                    *barriers >= BARRIERS_PER_SEARCH && barriers.is_power_of_two()
                });
                if !due {
                    team.check_whole()?;
                    return team.disseminate();
                }
                if let slot @ Self::Slot(_) = agree(team, way)? {
                    *self = slot;
                }
                Ok(())
            }
            Self::Nodes(places) => places.barrier(team),
            Self::Nowhere { .. } if !team.is_on_one_node() => {
                self.divide(team);
                self.barrier_elsewhere(team, way)
            }
            Self::Nowhere { .. } => {
                *self = agree(team, way)?;
                Ok(())
            }
        }
    }

    /// Gives a group on several nodes a meeting point on each node, if it has not met yet.
    pub(super) fn divide(&mut self, team: Team<'_>) {
        if matches!(self, Self::Nowhere { .. }) {
            *self = Self::Nodes(Places::new(team));
        }
    }

    /// Returns the meeting point of the members on this node.
    pub(super) fn on_node(&mut self) -> &mut Self {
        match self {
            Self::Nodes(places) => &mut places.on_node,
            point => point,
        }
    }

    /// Exchanges a short vector with the other member of a group of two, by words of the slot.
    /// Returns the length of its vector, or `None` when there is no slot.
    #[inline]
    pub(super) fn exchange(
        &mut self,
        team: Team<'_>,
        mine: &[u8],
        theirs: &mut [u8],
    ) -> Result<Option<usize>, Error> {
        if matches!(self, Self::Nowhere { .. }) && team.is_on_one_node() {
            *self = agree(team, way(2)).map_err(|error| team.blame(error))?;
        }
        let Self::Slot(place) = self else { return Ok(None) };
        if place.gave_up {
            team.check_whole()?;
        }
        match place.exchange(&team, mine, theirs) {
            Ok(length) => Ok(Some(length)),
            Err(error) => Err(self.give_up(team, error)),
        }
    }

    /// Uses messages from now on, although there may be a slot. All members must call this before
    /// their first barrier.
    pub(super) fn by_messages(&mut self) {
        *self = Self::Messages { barriers: None };
    }
}

/// Runs the first barrier of a group. All members report to the leader, in place 0, which looks for
/// a slot meanwhile. The release message carries the slot's number. So all members agree, and none
/// uses the slot of a group that has left it.
pub(super) fn agree(team: Team<'_>, way: BarrierAlgorithm) -> Result<MeetingPoint, Error> {
    team.check_whole()?;
    let segment = team.world.segment();
    let mut bit = 1;
    while bit < team.count() && team.place & bit == 0 {
        if team.place + bit < team.count() {
            team.receive(&mut [], team.place + bit)?;
        }
        bit *= 2;
    }
    // The slot's number plus 1 in the lower half, and the number of the claim in the upper half; 0
    // means no slot.
    let mut found = [0_u64];
    if team.place == 0 {
        let claimed = claim(team.world);
        found[0] = claimed.map_or(0, |(slot, claim)| u64::from(claim) << 32 | u64::from(slot + 1));
        if let Err(error) = team.broadcast(bytes_mut(&mut found), 0) {
            let seats = seats(&segment, team.world.rank());
            claimed.into_iter().for_each(|(slot, _)| seats.leave(slot));
            return Err(error);
        }
    } else {
        team.send(&[], team.place - bit)?;
        team.broadcast(bytes_mut(&mut found), 0)?;
    }
    let Some(number) = (found[0] as u32).checked_sub(1) else { return Ok(BY_MESSAGES) };
    let slot = segment.barrier_slot(number);
    let slot = slot.ok_or(Error::Corrupt(Corrupt::BarrierSlot { found: number }))?;
    if team.place != 0 {
        let seats = seats(&segment, team.world.rank());
        seats.take(number);
        // SAFETY: the world keeps its segment mapped.
        if !unsafe { slot.as_ref() }.join((found[0] >> 32) as u32) {
            seats.leave(number);
            return Ok(BY_MESSAGES);
        }
    }
    let barrier = Barrier::new(way, team.place, team.count());
    Ok(MeetingPoint::Slot(GroupBarrier {
        slot,
        number,
        barrier,
        exchange: Exchange::new(team.place),
        until_progress: 0,
        gave_up: false,
        buffers: BufferState::Unused { operations: 0 },
    }))
}

/// Claims a free slot, if there is one. Returns its number and the number of the claim.
fn claim(world: &World) -> Option<(u32, u32)> {
    let (segment, leader) = (world.segment(), world.rank());
    (0..BARRIER_SLOTS).find_map(|number| {
        let slot = segment.barrier_slot(number)?;
        let others = NodeRanks { segment, leader, slot: number };
        // SAFETY: the world keeps its segment mapped.
        Some((number, unsafe { slot.as_ref() }.claim(leader, &others)?))
    })
}

/// The ranks of the node, for a leader that claims a slot.
struct NodeRanks {
    segment: Segment,
    leader: Rank,
    slot: u32,
}

impl Ranks for NodeRanks {
    fn sit(&self) -> bool {
        (0..self.segment.ranks())
            .any(|rank| seats(&self.segment, rank).has(self.slot) && self.lives(rank))
    }

    fn lives(&self, rank: Rank) -> bool {
        // No living process has written a number that is no rank.
        rank < self.segment.ranks() && self.segment.rank_block(rank).liveness.state() <= Life::Alive
    }

    fn seat_leader(&self) {
        seats(&self.segment, self.leader).take(self.slot);
    }
}

impl GroupBarrier {
    #[inline]
    fn barrier(&mut self, team: &Team<'_>) -> Result<(), Error> {
        // SAFETY: the team's world keeps the segment mapped.
        let slot = unsafe { self.slot.as_ref() };
        if self.barrier.enter(slot) {
            team.world.wake_sleepers(team.others());
        }
        for _ in 0..team.world.spin().short_polls() {
            if self.barrier.is_over(slot) {
                return self.progress_sometimes(team.world);
            }
            spin_hint();
        }
        self.wait(team)
    }

    /// Waits for the barrier with backoff, and makes progress meanwhile.
    #[inline(never)]
    fn wait(&mut self, team: &Team<'_>) -> Result<(), Error> {
        // SAFETY: the team's world keeps the segment mapped.
        let slot = unsafe { self.slot.as_ref() };
        if team.world.look_between_yields(|| self.barrier.is_over(slot).then_some(())).is_some() {
            return self.progress_sometimes(team.world);
        }
        let what = || team.barrier_wait();
        let outcome = team.world.wait_until(what, || {
            // The order matters: a member's entry comes before its end.
            let loss = team.loss();
            if self.barrier.is_over(slot) { Some(Ok(())) } else { loss.map(Err) }
        })?;
        Ok(outcome?)
    }

    /// Exchanges a vector, and returns the length of the other member's.
    #[inline]
    fn exchange(
        &mut self,
        team: &Team<'_>,
        mine: &[u8],
        theirs: &mut [u8],
    ) -> Result<usize, Error> {
        // SAFETY: the team's world keeps the segment mapped.
        let line = unsafe { self.slot.as_ref() }.exchange();
        if self.exchange.enter(line, mine) {
            team.world.wake_sleepers(team.others());
        }
        for _ in 0..team.world.spin().short_polls() {
            if let Some(length) = self.exchange.take(line, theirs) {
                self.progress_sometimes(team.world)?;
                return Ok(length);
            }
            spin_hint();
        }
        let take = || self.exchange.take(line, theirs);
        if let Some(length) = team.world.look_between_yields(take) {
            self.progress_sometimes(team.world)?;
            return Ok(length);
        }
        let what = || team.exchange_wait();
        let outcome = team.world.wait_until(what, || {
            // The order matters: a member's entry comes before its end.
            let loss = team.loss();
            self.exchange.take(line, theirs).map(Ok).or_else(|| loss.map(Err))
        })?;
        Ok(outcome?)
    }

    #[inline(always)]
    pub(super) fn progress_sometimes(&mut self, world: &World) -> Result<(), Error> {
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
