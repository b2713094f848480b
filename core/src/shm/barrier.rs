//! Barriers on words that the ranks of a node share (`[Nemesis07]` §3.4).
//!
//! A slot is the memory of one group's barriers. The group's leader claims it by compare-and-swap keyed on context and
//! group, and tells the others which one it got; whoever of the group leaves it last gives it back, zeroed. The paper's
//! descendants let every rank look for the slot itself, and two ranks can then end in two slots, when one is given back
//! between their looks.
//!
//! All counts are of 64 bits and only grow while a group holds the slot. So nothing is reset between barriers, and no
//! rank can take one barrier's end for the next one's. A rank that died is missing in every later barrier.
//!
//! Participants: the members of the group, one thread each. `enter`, `is_over`, `claim` and `leave` are wait-free; how
//! to pass the time until `is_over` is up to the caller.
//! Absent on purpose: a wait, a reset, the slot of a group of which a member died: its words stay as they are.

use crate::layout::golden;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, CacheLine, order};

/// Ranks that have a flag in a slot.
pub const FLAGS: usize = 8;

/// The words of one group's barriers. Zero: free.
///
/// | offset | size | field    | written by                              |
/// |-------:|-----:|----------|-----------------------------------------|
/// |      0 |    8 | `key`    | leader; the last to leave               |
/// |      8 |    8 | `left`   | members that leave                      |
/// |     64 |   64 | `count`  | every member                            |
/// |    128 |   64 | `signal` | whoever enters last                     |
/// |    192 |  512 | `flags`  | one line each, its member               |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BarrierSlot {
    key: AtomicU64,
    left: AtomicU64,
    count: CacheLine<AtomicU64>,
    signal: CacheLine<AtomicU64>,
    flags: [CacheLine<AtomicU64>; FLAGS],
}

golden::structure!(BarrierSlot { key, left, count, signal, flags });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    use crate::sync::CACHE_LINE;

    const_assert_eq!(offset_of!(BarrierSlot, count), CACHE_LINE);
    const_assert_eq!(offset_of!(BarrierSlot, signal), 2 * CACHE_LINE);
    const_assert_eq!(offset_of!(BarrierSlot, flags), 3 * CACHE_LINE);
    const_assert_eq!(size_of::<BarrierSlot>(), (3 + FLAGS) * CACHE_LINE);
};

impl BarrierSlot {
    /// A free slot, for models and tests: in a segment, zeroed memory already is one.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            key: AtomicU64::new(0),
            left: AtomicU64::new(0),
            count: CacheLine::default(),
            signal: CacheLine::default(),
            flags: core::array::from_fn(|_| CacheLine::default()),
        }
    }

    /// Takes the slot for the group with this key, which is not zero, if it is free.
    #[must_use]
    pub fn claim(&self, key: u64) -> bool {
        debug_assert!(key != 0);
        // ORDER barrier/1: Acquire, pairs with barrier/2: the words that its last group left are zero.
        self.key.compare_exchange(0, key, order("barrier/1", Acquire), Relaxed).is_ok()
    }

    /// True when the group with this key holds the slot: what a member finds that its leader sent here.
    #[must_use]
    pub fn belongs_to(&self, key: u64) -> bool {
        // Relaxed: the leader's message came after its claim.
        self.key.load(Relaxed) == key
    }

    /// Says that one of `members` members uses the slot no more. The last one gives it back.
    pub fn leave(&self, members: u32) {
        // ORDER barrier/3: AcqRel, pairs with itself.
        // Release: what this member did with the words comes before its leaving.
        // Acquire: the last one's zeros come after everything the others did; else an old count could land on top.
        if self.left.fetch_add(1, order("barrier/3", AcqRel)) + 1 < u64::from(members) {
            return;
        }
        let words = [&self.left, &self.count, &self.signal];
        for word in words.into_iter().chain(self.flags.iter().map(|flag| &flag.0)) {
            word.store(0, Relaxed);
        }
        // ORDER barrier/2: Release, pairs with barrier/1: the zeros come before the slot is free.
        self.key.store(0, order("barrier/2", Release));
    }
}

/// How the members of a group learn of each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// One word that counts and signals. Who enters by an atomic addition holds the line and knows with it who else
    /// came, and the next barrier's addition finds it there: for two ranks less than one line transfer a barrier.
    Word,
    /// A flag for each member, on its own line; everybody looks at all of them. At most [`FLAGS`] members.
    Flags,
    /// The paper's: one line counts, another signals, so that those who wait do not slow down those who come.
    Signal,
}

/// One member's view of its group's barriers: private state.
#[derive(Debug)]
pub struct Barrier {
    way: Way,
    place: u32,
    members: u32,
    /// Barriers that this member has entered.
    epoch: u64,
    /// Members that are known to have entered the last barrier, in the order of their places ([`Way::Flags`]).
    seen: u32,
}

impl Barrier {
    /// The view of the member number `place`, of `members`. All members go the same way.
    #[must_use]
    pub const fn new(way: Way, place: u32, members: u32) -> Self {
        let way = match way {
            Way::Flags if members as usize > FLAGS => Way::Signal,
            way => way,
        };
        Self { way, place, members, epoch: 0, seen: 0 }
    }

    /// Enters the next barrier. The one before is over, or was given up. True: it may be over by that, and those who wait
    /// for it in their sleep have to be woken.
    #[inline(always)]
    #[must_use]
    pub fn enter(&mut self, slot: &BarrierSlot) -> bool {
        self.epoch += 1;
        let all = self.epoch * u64::from(self.members);
        match self.way {
            Way::Word => {
                // ORDER barrier/4: Release, pairs with barrier/5: what this member did before the barrier is known to whoever
                //   sees the count. Who comes last looks, too, and finds the line in its own cache.
                slot.count.fetch_add(1, order("barrier/4", Release)) + 1 == all
            }
            Way::Flags => {
                self.seen = 0;
                // ORDER barrier/6: Release, pairs with barrier/7: all that came before is known to who sees the flag.
                slot.flags[self.place as usize].store(self.epoch, order("barrier/6", Release));
                true
            }
            Way::Signal => {
                // ORDER barrier/8: AcqRel, pairs with itself: each adds what it did to what it got, so that the last one
                //   has it all. It hands it on by barrier/9.
                let before = slot.count.fetch_add(1, order("barrier/8", AcqRel));
                let last = before + 1 == all;
                if last {
                    // ORDER barrier/9: Release, pairs with barrier/10.
                    slot.signal.store(self.epoch, order("barrier/9", Release));
                }
                last
            }
        }
    }

    /// True when every member has entered the barrier that this one entered last.
    #[inline(always)]
    #[must_use]
    pub fn is_over(&mut self, slot: &BarrierSlot) -> bool {
        match self.way {
            // ORDER barrier/5: Acquire, pairs with barrier/4 of every member: additions hand on what was released.
            Way::Word => {
                let count = slot.count.load(order("barrier/5", Acquire));
                count >= self.epoch * u64::from(self.members)
            }
            Way::Flags => {
                while self.seen < self.members {
                    // ORDER barrier/7: Acquire, pairs with barrier/6.
                    let flag = slot.flags[self.seen as usize].load(order("barrier/7", Acquire));
                    if flag < self.epoch {
                        return false;
                    }
                    self.seen += 1;
                }
                true
            }
            // ORDER barrier/10: Acquire, pairs with barrier/9.
            Way::Signal => slot.signal.load(order("barrier/10", Acquire)) >= self.epoch,
        }
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_slot_goes_from_group_to_group() {
        for way in [Way::Word, Way::Flags, Way::Signal] {
            let slot = BarrierSlot::empty();
            for key in 1..4 {
                assert!(slot.claim(key) && slot.belongs_to(key));
                assert!(!slot.claim(9), "it is taken");
                let mut members = [0, 1, 2].map(|place| Barrier::new(way, place, 3));
                for _ in 0..5 {
                    for entering in 0..3 {
                        assert!(
                            members[..entering].iter_mut().all(|member| !member.is_over(&slot))
                        );
                        let over = members[entering].enter(&slot);
                        assert_eq!(over, way == Way::Flags || entering == 2);
                    }
                    assert!(members.iter_mut().all(|member| member.is_over(&slot)));
                }
                for _ in 0..3 {
                    assert!(slot.belongs_to(key), "somebody has not left");
                    slot.leave(3);
                }
                assert!(!slot.belongs_to(key));
            }
        }
    }

    #[test]
    fn who_gives_up_and_tries_again_does_not_stand_in_for_the_dead() {
        for way in [Way::Word, Way::Flags, Way::Signal] {
            let slot = BarrierSlot::empty();
            let mut survivors = [0, 1].map(|place| Barrier::new(way, place, 3));
            for _ in 0..100 {
                for member in &mut survivors {
                    let _ = member.enter(&slot);
                    assert!(!member.is_over(&slot));
                }
            }
        }
    }

    #[test]
    fn many_members_have_no_flags() {
        let slot = BarrierSlot::empty();
        let count = FLAGS as u32 + 1;
        let mut all: Vec<_> =
            (0..count).map(|place| Barrier::new(Way::Flags, place, count)).collect();
        for member in &mut all {
            let _ = member.enter(&slot);
        }
        assert!(all.iter_mut().all(|member| member.is_over(&slot)));
    }
}
