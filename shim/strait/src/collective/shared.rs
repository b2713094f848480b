//! Operations of the members of one node on short and medium vectors, through collective buffers.
//!
//! Each is one step of the group. A member that only shows its vector does not wait for those that
//! read it, and may be some operations ahead of them.

use core::ops::RangeInclusive;

use strait_core::shm::{BarrierSlot, FLAGS};
use strait_core::sync::spin_hint;

use super::Meeting;
use super::algorithms::choice::{
    SHARED_ALLREDUCE, SHARED_BROADCAST, SHARED_MEMBERS, SHARED_REDUCE,
};
use super::meeting::{agree, way};
use super::operation::Operator;
use super::scratch::{ALIGN, Scratch};
use super::shared_buffers::{BUFFER_VECTOR_MAX, exchange_buffers};
use super::team::Team;
use crate::Error;
use crate::world::meeting::{BufferState, CollectiveBuffers, GroupBarrier, MeetingPoint};

/// Number of operations by messages after which a group takes collective buffers, and a slot if it
/// has none. A group with few operations is not worth a slot and the memory.
const OPERATIONS_BEFORE: u32 = 16;

const _: () = assert!(*SHARED_BROADCAST.end() <= BUFFER_VECTOR_MAX);

impl MeetingPoint {
    /// Returns the group's slot if its members have collective buffers. Counts the operation if
    /// they have none yet, and tries to get them some when there have been enough operations. All
    /// members call this for the same operations, so all find the same.
    #[inline]
    fn with_buffers(&mut self, team: Team<'_>) -> Result<Option<&mut GroupBarrier>, Error> {
        if !matches!(self, Self::Slot(GroupBarrier { buffers: BufferState::Ready(_), .. })) {
            self.count_operation(team).map_err(|error| team.blame(error))?;
        }
        match self {
            Self::Slot(place) if matches!(place.buffers, BufferState::Ready(_)) => Ok(Some(place)),
            _ => Ok(None),
        }
    }

    #[inline(never)]
    fn count_operation(&mut self, team: Team<'_>) -> Result<(), Error> {
        let mut before = 0;
        if let Self::Nowhere { operations } = self {
            *operations = operations.saturating_add(1);
            before = *operations;
            if before < OPERATIONS_BEFORE {
                return Ok(());
            }
            *self = agree(team, way(team.count()))?;
        }
        let Self::Slot(place) = self else { return Ok(()) };
        let BufferState::Unused { operations } = &mut place.buffers else { return Ok(()) };
        *operations = before.max(*operations + 1);
        if *operations >= OPERATIONS_BEFORE {
            place.buffers = exchange_buffers(team, place)?;
        }
        Ok(())
    }
}

/// The steps of a group, as one of its members takes them.
pub(super) struct SharedSteps<'a> {
    pub(super) team: Team<'a>,
    slot: &'a BarrierSlot,
    buffers: &'a mut CollectiveBuffers,
}

impl SharedSteps<'_> {
    /// Enters the next step and shows `data` to the other members, when there is room for it.
    pub(super) fn show(&mut self, data: &[u8]) -> Result<(), Error> {
        let steps = self.buffers.steps_before(data.len());
        let slot = self.slot;
        self.wait_until(None, |buffers| buffers.steps.have_all_entered(slot, steps))?;
        self.buffers.show(slot, self.team.place, data);
        self.team.world.wake_sleepers(self.team.others());
        Ok(())
    }

    /// Enters the next step without a vector.
    pub(super) fn enter(&mut self) {
        self.buffers.steps.enter(self.slot);
        self.team.world.wake_sleepers(self.team.others());
    }

    /// Waits until the member in `place` has entered the last step of this member.
    pub(super) fn wait_for(&mut self, place: u32) -> Result<(), Error> {
        let slot = self.slot;
        self.wait_until(Some(place), |buffers| buffers.steps.has_entered(slot, place))
    }

    /// Waits until all members have entered the last step of this member.
    fn wait_for_all(&mut self) -> Result<(), Error> {
        let (slot, steps) = (self.slot, self.buffers.steps.entered());
        self.wait_until(None, |buffers| buffers.steps.have_all_entered(slot, steps))
    }

    /// Waits until `is_over`, for an entry of the member in `place` or of all.
    #[inline]
    fn wait_until(
        &mut self,
        place: Option<u32>,
        is_over: impl Fn(&mut CollectiveBuffers) -> bool,
    ) -> Result<(), Error> {
        let Self { team, buffers, .. } = self;
        for _ in 0..team.world.spin().short_polls() {
            if is_over(buffers) {
                return Ok(());
            }
            spin_hint();
        }
        if team.world.look_between_yields(|| is_over(buffers).then_some(())).is_some() {
            return Ok(());
        }
        let what = || team.step_wait(place);
        let outcome = team.world.wait_until(what, || {
            // The order matters: a member's entry comes before its end.
            let loss = team.loss();
            if is_over(buffers) { Some(Ok(())) } else { loss.map(Err) }
        })?;
        Ok(outcome?)
    }

    /// Copies the vector that the member in `place` showed in the last step.
    pub(super) fn read(&self, place: u32, into: &mut [u8]) -> Result<(), Error> {
        Ok(self.buffers.read_checked(&self.team, place, into)?)
    }
}

/// Copies of the vectors of all members, for a reduction.
struct Vectors<'a> {
    scratch: Scratch<'a>,
    length: usize,
    /// Distance of two vectors in bytes.
    stride: usize,
    count: usize,
}

impl<'a> Vectors<'a> {
    fn new(team: Team<'a>, length: usize) -> Self {
        let (stride, count) = (length.next_multiple_of(ALIGN), team.count() as usize);
        Self { scratch: team.scratch(stride * count), length, stride, count }
    }

    /// Copies the vectors that all other members showed in the last step, and this member's.
    fn fill(&mut self, steps: &SharedSteps<'_>, own: &[u8]) -> Result<(), Error> {
        let all = self.scratch.bytes();
        for place in 0..self.count {
            let into = &mut all[place * self.stride..][..self.length];
            if place as u32 == steps.team.place {
                into.copy_from_slice(own);
            } else {
                steps.read(place as u32, into)?;
            }
        }
        Ok(())
    }

    /// Combines the vectors in the order of all reductions: neighbours first, then pairs of
    /// neighbours, with lower places on the left.
    fn combine(mut self, op: &dyn Operator, into: &mut [u8]) {
        let all = self.scratch.bytes();
        let mut distance = 1;
        while distance < self.count {
            for place in (0..self.count - distance).step_by(2 * distance) {
                let (left, right) = all.split_at_mut((place + distance) * self.stride);
                let left = &mut left[place * self.stride..][..self.length];
                op.with_higher(left, &right[..self.length]);
            }
            distance *= 2;
        }
        into.copy_from_slice(&all[..self.length]);
    }
}

/// Returns true if so many members of one node use collective buffers for a vector of `bytes`
/// bytes, in an operation that uses them for `lengths`.
pub(super) fn is_shared(members: u32, bytes: usize, lengths: &RangeInclusive<usize>) -> bool {
    (SHARED_MEMBERS..=FLAGS as u32).contains(&members) && lengths.contains(&bytes)
}

impl Team<'_> {
    /// Broadcasts from the root through collective buffers. Returns false, and has done nothing, if
    /// the members have none or messages are faster.
    pub(super) fn broadcast_shared(
        self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        root: u32,
    ) -> Result<bool, Error> {
        if !is_shared(self.count(), data.len(), &SHARED_BROADCAST) {
            return Ok(false);
        }
        self.in_step(meeting, |mut steps| {
            if self.place == root {
                return steps.show(data);
            }
            steps.enter();
            steps.wait_for(root)?;
            steps.read(root, data)
        })
    }

    /// Reduces to the root through collective buffers. Returns false as
    /// [`Team::broadcast_shared`] does.
    pub(super) fn reduce_shared(
        self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        op: &dyn Operator,
        root: u32,
    ) -> Result<bool, Error> {
        if !is_shared(self.count(), data.len(), &SHARED_REDUCE) {
            return Ok(false);
        }
        if self.place != root {
            return self.in_step(meeting, |mut steps| steps.show(data));
        }
        self.combine_shared(meeting, data, op, false)
    }

    /// Reduces for all members through collective buffers: each reads the vectors of all. Returns
    /// false as [`Team::broadcast_shared`] does.
    pub(super) fn allreduce_shared(
        self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        op: &dyn Operator,
    ) -> Result<bool, Error> {
        if !is_shared(self.count(), data.len(), &SHARED_ALLREDUCE) {
            return Ok(false);
        }
        self.combine_shared(meeting, data, op, true)
    }

    /// Combines the vectors of all members. `shows`: other members combine them, too, and need this
    /// member's.
    #[inline]
    fn combine_shared(
        self,
        meeting: Meeting<'_>,
        data: &mut [u8],
        op: &dyn Operator,
        shows: bool,
    ) -> Result<bool, Error> {
        let mut vectors = Vectors::new(self, data.len());
        let is_done = self.in_step(meeting, |mut steps| {
            if shows {
                steps.show(data)?;
            } else {
                steps.enter();
            }
            steps.wait_for_all()?;
            vectors.fill(&steps, data)
        })?;
        if is_done {
            vectors.combine(op, data);
        }
        Ok(is_done)
    }

    /// Runs `act` on the group's steps, and makes progress now and then. Returns false if the
    /// members have no collective buffers.
    pub(super) fn in_step(
        self,
        meeting: Meeting<'_>,
        act: impl FnOnce(SharedSteps<'_>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        meeting.with(|point| {
            let point = point.on_node();
            let Some(place) = point.with_buffers(self)? else { return Ok(false) };
            let BufferState::Ready(buffers) = &mut place.buffers else { return Ok(false) };
            // SAFETY: the team's world keeps the segment mapped.
            let slot = unsafe { place.slot.as_ref() };
            let outcome = act(SharedSteps { team: self, slot, buffers })
                .and_then(|()| place.progress_sometimes(self.world));
            match outcome {
                Ok(()) => Ok(true),
                Err(error @ Error::Collective(_)) => Err(self.blame(error)),
                Err(error) => Err(point.give_up(self, error)),
            }
        })
    }
}
