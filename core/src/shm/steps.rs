//! Steps of a group's collective operations: each member counts those that it has entered.
//!
//! All members enter the same steps in the same order. In a barrier a member waits for all others.
//! In a step it waits for those members alone from which it needs something, so it may be many
//! steps ahead of the others. The counts are the flags in the group's slot.
//!
//! Participants: at most [`FLAGS`] members, one thread each. All calls are wait-free. The caller
//! decides how to pass the time.
//! Absent on purpose: a wait, a reset.

use super::barrier::{BarrierSlot, FLAGS};
use crate::sync::{Step, reached};

/// One member's view of its group's steps: private state.
///
/// ```
/// use strait_core::shm::{BarrierSlot, Steps};
///
/// let slot = BarrierSlot::empty();
/// let [mut first, mut second] = [0, 1].map(|place| Steps::new(place, 2).unwrap());
/// first.enter(&slot);
/// first.enter(&slot);
/// second.enter(&slot);
/// assert!(second.has_entered(&slot, 0), "the first member is ahead");
/// assert!(!first.has_entered(&slot, 1));
/// assert!(first.have_all_entered(&slot, 1));
/// assert!(!first.have_all_entered(&slot, 2));
/// ```
#[derive(Debug)]
pub struct Steps {
    place: u32,
    members: u32,
    /// Number of steps that this member has entered.
    entered: u64,
    /// Number of steps that each other member is known to have entered.
    slowest: u64,
}

impl Steps {
    /// Creates the view of the member in `place`. Returns `None` for more than [`FLAGS`] members.
    #[must_use]
    pub const fn new(place: u32, members: u32) -> Option<Self> {
        if members as usize > FLAGS || place >= members {
            return None;
        }
        Some(Self { place, members, entered: 0, slowest: 0 })
    }

    /// Returns the number of steps that this member has entered.
    #[inline(always)]
    #[must_use]
    pub const fn entered(&self) -> u64 {
        self.entered
    }

    /// Enters the next step. Members that sleep while they wait for it must then be woken.
    #[inline(always)]
    pub fn enter(&mut self, slot: &BarrierSlot) {
        self.entered += 1;
        slot.raise_flag(self.place, self.entered);
        reached(Step::BarrierEntered);
    }

    /// Returns true if the member in `place` has entered the step that this member entered last.
    #[inline(always)]
    #[must_use]
    pub fn has_entered(&self, slot: &BarrierSlot, place: u32) -> bool {
        slot.flag(place) >= self.entered
    }

    /// Returns true if each other member has entered at least `steps` steps.
    #[inline(always)]
    #[must_use]
    pub fn have_all_entered(&mut self, slot: &BarrierSlot, steps: u64) -> bool {
        if self.slowest < steps {
            let others = (0..self.members).filter(|place| *place != self.place);
            self.slowest = others.map(|place| slot.flag(place)).min().unwrap_or(u64::MAX);
        }
        self.slowest >= steps
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_at_most_one_member_for_each_flag() {
        assert!(Steps::new(FLAGS as u32 - 1, FLAGS as u32).is_some());
        assert!(Steps::new(0, FLAGS as u32 + 1).is_none());
        assert!(Steps::new(2, 2).is_none());
    }

    #[test]
    fn the_slowest_member_decides() {
        let slot = BarrierSlot::empty();
        let [mut first, mut second, mut third] =
            [0, 1, 2].map(|place| Steps::new(place, 3).unwrap());
        (0..5).for_each(|_| second.enter(&slot));
        assert!(!first.have_all_entered(&slot, 1));
        third.enter(&slot);
        assert!(first.have_all_entered(&slot, 1));
        assert!(!first.have_all_entered(&slot, 2));
        (0..5).for_each(|_| third.enter(&slot));
        assert!(first.have_all_entered(&slot, 5));
        assert!(!first.have_all_entered(&slot, 6));
    }

    #[test]
    fn a_member_alone_waits_for_none() {
        let slot = BarrierSlot::empty();
        assert!(Steps::new(0, 1).unwrap().have_all_entered(&slot, 9));
    }
}
