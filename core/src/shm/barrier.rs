//! Barriers on words that the ranks of a node share (`[Nemesis07]` §3.4).
//!
//! A slot is the memory of one group's barriers. The group's leader claims it and tells the others which one it got. Each
//! member says in a word of its own that it has a *seat* there ([`Seats`]). So nobody has to be the last to leave: a slot
//! is free when no living rank has a seat in it, and a member that was killed leaves its slot with its life. The paper's
//! descendants let every rank look for the slot itself, and two ranks can then end in two slots, when one is given back
//! between their looks.
//!
//! All counts are of 64 bits and only grow while a group has seats. So nothing is reset between barriers, and no
//! rank can take one barrier's end for the next one's. A rank that died is missing in every later barrier.
//!
//! Participants: the members of the group, one thread each. `enter`, `is_over`, `claim`, `join` and `leave` are
//! wait-free; how to pass the time until `is_over` is up to the caller.
//! Absent on purpose: a wait, a reset, a list of the members.

use crate::layout::golden;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, CacheLine, Step, order, reached};

/// Ranks that have a flag in a slot.
pub const FLAGS: usize = 8;

/// The words of one group's barriers.
///
/// | offset | size | field    | written by                 |
/// |-------:|-----:|----------|----------------------------|
/// |      0 |    8 | `claim`  | leaders, and those who join |
/// |     64 |   64 | `count`  | every member               |
/// |    128 |   64 | `signal` | whoever enters last        |
/// |    192 |  512 | `flags`  | one line each, its member  |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BarrierSlot {
    /// How often it was claimed (upper half), and who is claiming it now, plus one.
    claim: AtomicU64,
    count: CacheLine<AtomicU64>,
    signal: CacheLine<AtomicU64>,
    flags: [CacheLine<AtomicU64>; FLAGS],
}

golden::structure!(BarrierSlot { claim, count, signal, flags });

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
            claim: AtomicU64::new(0),
            count: CacheLine::default(),
            signal: CacheLine::default(),
            flags: core::array::from_fn(|_| CacheLine::default()),
        }
    }

    /// Takes the slot for a group that rank `leader` leads, if it is free, and a seat in it. Returns which claim of the slot
    /// it is: what the other members need to join.
    #[must_use]
    pub fn claim(&self, leader: u32, ranks: &impl Ranks) -> Option<u32> {
        let found = self.claim.load(Relaxed);
        let (number, claiming) = ((found >> 32) as u32, found as u32);
        // Who was killed while it claimed has changed nothing that matters.
        let busy = claiming.checked_sub(1).is_some_and(|rank| ranks.lives(rank));
        if busy || ranks.sit() {
            return None;
        }
        let number = number.wrapping_add(1);
        let claimed = u64::from(number) << 32;
        let locked = claimed | u64::from(leader + 1);
        // ORDER barrier/1: Acquire, pairs with barrier/2: the seat of whoever claimed before is seen; and with barrier/11: the
        //   seat of a member that joined before. The word has one order for all, so a member that joins later sees that it is
        //   too late.
        self.claim.compare_exchange(found, locked, order("barrier/1", Acquire), Relaxed).ok()?;
        reached(Step::SlotClaimed);
        if ranks.sit() {
            self.claim.store(found & !u64::from(u32::MAX), Relaxed);
            return None;
        }
        let words = [&self.count, &self.signal].into_iter().chain(&self.flags);
        // The leader's message publishes the zeros.
        words.for_each(|word| word.store(0, Relaxed));
        ranks.seat_leader();
        // ORDER barrier/2: Release, pairs with barrier/1: the leader's seat comes before the end of its claim.
        self.claim.store(claimed, order("barrier/2", Release));
        Some(number)
    }

    /// Says whether claim `number` still holds, for a member that has just taken its seat. If not, its leader has left, the
    /// group has no barrier to come, and the member gives its seat up.
    #[must_use]
    pub fn join(&self, number: u32) -> bool {
        reached(Step::SeatTaken);
        // ORDER barrier/11: Release, pairs with barrier/1: our seat comes before it. It changes nothing; it takes its place
        //   among the claims.
        let found = self.claim.fetch_add(0, order("barrier/11", Release));
        (found >> 32) as u32 == number
    }
}

/// What a leader has to know of the ranks, for one slot.
pub trait Ranks {
    /// True when a living rank has a seat in the slot ([`Seats::has`]).
    fn sit(&self) -> bool;

    /// True when `rank` may still run.
    fn lives(&self, rank: u32) -> bool;

    /// Takes a seat in the slot for the leader ([`Seats::take`]).
    fn seat_leader(&self);
}

/// The slots in which one rank has a seat, a bit for each. Written by that rank alone; zeroed memory is none.
#[derive(Debug)]
#[repr(transparent)]
pub struct Seats(AtomicU64);

impl Seats {
    /// No seats, for models and tests: in a segment, zeroed memory already says so.
    #[must_use]
    pub fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes a seat in slot `slot`.
    pub fn take(&self, slot: u32) {
        // Relaxed: barrier/2 or barrier/11 publishes it.
        self.0.store(self.0.load(Relaxed) | 1 << slot, Relaxed);
    }

    /// Gives the seat in slot `slot` up. The rank touches the slot's words no more.
    pub fn leave(&self, slot: u32) {
        let left = self.0.load(Relaxed) & !(1 << slot);
        // ORDER barrier/3: Release, pairs with barrier/12: what this rank did with the words comes before the next group's
        //   zeros; else an old count could land on top of them.
        self.0.store(left, order("barrier/3", Release));
        reached(Step::SeatLeft);
    }

    /// True when the rank has a seat in slot `slot`.
    #[must_use]
    pub fn has(&self, slot: u32) -> bool {
        // ORDER barrier/12: Acquire, pairs with barrier/3.
        self.0.load(order("barrier/12", Acquire)) & 1 << slot != 0
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
        let over = match self.way {
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
        };
        reached(Step::BarrierEntered);
        over
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
    use core::cell::Cell;
    use std::vec::Vec;

    use super::*;

    /// Three ranks and one slot.
    struct Three {
        seats: [Seats; 3],
        dead: Cell<[bool; 3]>,
    }

    /// The view of the leader.
    struct View<'a>(&'a Three, u32);

    impl Ranks for View<'_> {
        fn sit(&self) -> bool {
            (0..3).any(|rank| self.lives(rank) && self.0.seats[rank as usize].has(SLOT))
        }

        fn lives(&self, rank: u32) -> bool {
            !self.0.dead.get()[rank as usize]
        }

        fn seat_leader(&self) {
            self.0.seats[self.1 as usize].take(SLOT);
        }
    }

    const SLOT: u32 = 5;

    impl Three {
        fn new() -> Self {
            Self { seats: [(); 3].map(|()| Seats::none()), dead: Cell::default() }
        }

        /// Rank 0 claims for all.
        fn claim(&self, slot: &BarrierSlot) -> Option<u32> {
            let number = slot.claim(0, &View(self, 0))?;
            for seats in &self.seats[1..] {
                seats.take(SLOT);
                assert!(slot.join(number));
            }
            Some(number)
        }
    }

    #[test]
    fn a_slot_goes_from_group_to_group() {
        for way in [Way::Word, Way::Flags, Way::Signal] {
            let (slot, ranks) = (BarrierSlot::empty(), Three::new());
            for number in 1..4 {
                assert_eq!(ranks.claim(&slot), Some(number));
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
                for seats in &ranks.seats {
                    assert_eq!(ranks.claim(&slot), None, "somebody has not left");
                    seats.leave(SLOT);
                }
            }
        }
    }

    #[test]
    fn the_dead_have_no_seat() {
        let (slot, ranks) = (BarrierSlot::empty(), Three::new());
        assert_eq!(ranks.claim(&slot), Some(1));
        ranks.seats[0].leave(SLOT);
        ranks.seats[2].leave(SLOT);
        assert_eq!(slot.claim(2, &View(&ranks, 2)), None, "rank 1 lives");
        ranks.dead.set([false, true, false]);
        assert_eq!(slot.claim(2, &View(&ranks, 2)), Some(2));
    }

    #[test]
    fn who_was_killed_while_it_claimed_is_in_nobodys_way() {
        let (slot, ranks) = (BarrierSlot::empty(), Three::new());
        slot.claim.store(7 << 32 | 2, Relaxed);
        assert_eq!(slot.claim(2, &View(&ranks, 2)), None, "rank 1 claims");
        ranks.dead.set([false, true, false]);
        assert_eq!(slot.claim(2, &View(&ranks, 2)), Some(8));
    }

    #[test]
    fn who_joins_after_its_leader_has_left_is_told() {
        let (slot, ranks) = (BarrierSlot::empty(), Three::new());
        let number = slot.claim(0, &View(&ranks, 0)).unwrap();
        ranks.seats[0].leave(SLOT);
        assert!(slot.claim(2, &View(&ranks, 2)).is_some());
        ranks.seats[1].take(SLOT);
        assert!(!slot.join(number));
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
