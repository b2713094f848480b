//! Barriers on words that the ranks of a node share (`[Nemesis07]` §3.4).
//!
//! A slot is the memory of one group's barriers. The group's leader claims a slot and sends its
//! number to the other members. Each member records in a word of its own that it has a *seat* in
//! the slot ([`Seats`]). A slot is free when no living rank has a seat in it. So no member has to
//! be the last to leave, and a killed member leaves its slot when it dies.
//!
//! In implementations derived from the paper, every rank looks for the slot itself. Two ranks can
//! then end in two slots, if one slot is released between their looks.
//!
//! All counts have 64 bits and only grow while a group has seats. Nothing is reset between
//! barriers, and no rank can mistake one barrier's end for the next one's. A rank that died is
//! missing in every later barrier.
//!
//! Participants: the members of the group, one thread each. `enter`, `is_over`, `claim`, `join` and
//! `leave` are wait-free. The caller decides how to pass the time until `is_over`.
//! Absent on purpose: a wait, a reset, a list of the members.

use super::exchange::ExchangeLine;
use crate::golden;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, CacheLine, Step, order, reached};

/// Number of ranks that have a flag in a slot.
pub const FLAGS: usize = 8;

/// The words of one group's barriers.
///
/// | offset | size | field      | written by                     |
/// |-------:|-----:|------------|--------------------------------|
/// |      0 |    8 | `claim`    | leaders, and members that join |
/// |     64 |   64 | `count`    | every member                   |
/// |    128 |   64 | `signal`   | the member that enters last    |
/// |    192 |  512 | `flags`    | each member its own line       |
/// |    704 |   64 | `exchange` | both members of a group of two |
#[derive(Debug)]
#[repr(C, align(64))]
pub struct BarrierSlot {
    /// Number of claims so far (upper half); the rank that is claiming now plus one, or 0 (lower
    /// half).
    claim: AtomicU64,
    count: CacheLine<AtomicU64>,
    signal: CacheLine<AtomicU64>,
    flags: [CacheLine<AtomicU64>; FLAGS],
    exchange: ExchangeLine,
}

golden::structure!(BarrierSlot { claim, count, signal, flags, exchange });

#[cfg(not(strait_loom))]
const _: () = {
    use memoffset::offset_of;
    use static_assertions::const_assert_eq;

    use crate::sync::CACHE_LINE;

    const_assert_eq!(offset_of!(BarrierSlot, count), CACHE_LINE);
    const_assert_eq!(offset_of!(BarrierSlot, signal), 2 * CACHE_LINE);
    const_assert_eq!(offset_of!(BarrierSlot, flags), 3 * CACHE_LINE);
    const_assert_eq!(offset_of!(BarrierSlot, exchange), (3 + FLAGS) * CACHE_LINE);
    const_assert_eq!(size_of::<BarrierSlot>(), (4 + FLAGS) * CACHE_LINE);
};

impl BarrierSlot {
    /// Creates a free slot, for models and tests. In a segment, zeroed memory has this state.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            claim: AtomicU64::new(0),
            count: CacheLine::default(),
            signal: CacheLine::default(),
            flags: core::array::from_fn(|_| CacheLine::default()),
            exchange: ExchangeLine::empty(),
        }
    }

    /// Returns the line by which a group of two members exchanges short vectors.
    #[inline(always)]
    #[must_use]
    pub const fn exchange(&self) -> &ExchangeLine {
        &self.exchange
    }

    /// Sets the flag of the member in `place` to the number of its entries.
    #[inline(always)]
    pub(super) fn raise_flag(&self, place: u32, entries: u64) {
        // ORDER barrier/6: Release, pairs with barrier/7: a member that sees the flag sees
        //   everything before it, and knows that the owner's earlier reads are over.
        self.flags[place as usize].store(entries, order("barrier/6", Release));
    }

    /// Returns the number of entries of the member in `place`.
    #[inline(always)]
    pub(super) fn flag(&self, place: u32) -> u64 {
        // ORDER barrier/7: Acquire, pairs with barrier/6: the flag's owner has finished its work
        //   before the entry.
        self.flags[place as usize].load(order("barrier/7", Acquire))
    }

    /// Claims the slot for the group of rank `leader`, if the slot is free, and takes a seat in it.
    ///
    /// Returns the number of the claim, which the other members need to join.
    #[must_use]
    pub fn claim(&self, leader: u32, ranks: &impl Ranks) -> Option<u32> {
        let found = self.claim.load(Relaxed);
        let (number, claiming) = ((found >> 32) as u32, found as u32);
        // A rank that was killed during its claim has changed nothing that matters.
        let busy = claiming.checked_sub(1).is_some_and(|rank| ranks.lives(rank));
        if busy || ranks.sit() {
            return None;
        }
        let number = number.wrapping_add(1);
        let claimed = u64::from(number) << 32;
        let locked = claimed | u64::from(leader + 1);
        // ORDER barrier/1: Acquire, pairs with barrier/2: the seat of the previous leader is
        //   visible. Pairs with barrier/11: the seat of a member that joined before is visible. The
        //   word has one modification order, so a member that joins later sees that it is too late.
        self.claim.compare_exchange(found, locked, order("barrier/1", Acquire), Relaxed).ok()?;
        reached(Step::SlotClaimed);
        if ranks.sit() {
            self.claim.store(found & !u64::from(u32::MAX), Relaxed);
            return None;
        }
        let words = [&self.count, &self.signal].into_iter().chain(&self.flags);
        // The leader's message to the members publishes the zeros.
        words.for_each(|word| word.store(0, Relaxed));
        self.exchange.clear();
        ranks.seat_leader();
        // ORDER barrier/2: Release, pairs with barrier/1: the leader's seat comes before the end of
        //   its claim.
        self.claim.store(claimed, order("barrier/2", Release));
        Some(number)
    }

    /// Returns true if claim `number` still holds. Called by a member that has just taken its seat.
    ///
    /// If false, its leader has left and the group has no barrier to come. The member then gives up
    /// its seat.
    #[must_use]
    pub fn join(&self, number: u32) -> bool {
        reached(Step::SeatTaken);
        // ORDER barrier/11: Release, pairs with barrier/1: our seat comes before it. The addition
        //   changes nothing; it takes its place among the claims.
        let found = self.claim.fetch_add(0, order("barrier/11", Release));
        (found >> 32) as u32 == number
    }
}

/// What a leader needs to know about the ranks, for one slot.
pub trait Ranks {
    /// Returns true if a living rank has a seat in the slot ([`Seats::has`]).
    fn sit(&self) -> bool;

    /// Returns true if `rank` may still be running.
    fn lives(&self, rank: u32) -> bool;

    /// Takes a seat in the slot for the leader ([`Seats::take`]).
    fn seat_leader(&self);
}

/// The slots in which one rank has a seat: one bit for each slot. Only that rank writes the word.
/// Zeroed memory means no seats.
#[derive(Debug)]
#[repr(transparent)]
pub struct Seats(AtomicU64);

impl Seats {
    /// Creates a word without seats, for models and tests. In a segment, zeroed memory has this
    /// state.
    #[must_use]
    pub fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes a seat in slot `slot`.
    pub fn take(&self, slot: u32) {
        // Relaxed: barrier/2 or barrier/11 publishes it.
        self.0.store(self.0.load(Relaxed) | 1 << slot, Relaxed);
    }

    /// Gives up the seat in slot `slot`. The rank no longer touches the slot's words.
    pub fn leave(&self, slot: u32) {
        let left = self.0.load(Relaxed) & !(1 << slot);
        // ORDER barrier/3: Release, pairs with barrier/12: this rank's accesses to the words come
        //   before the next group's zeros. Without it an old count could overwrite them.
        self.0.store(left, order("barrier/3", Release));
        reached(Step::SeatLeft);
    }

    /// Returns true if the rank has a seat in slot `slot`.
    #[must_use]
    pub fn has(&self, slot: u32) -> bool {
        // ORDER barrier/12: Acquire, pairs with barrier/3: the rank's accesses to the slot's words
        //   are over.
        self.0.load(order("barrier/12", Acquire)) & 1 << slot != 0
    }
}

/// The synchronisation method: how the members of a group learn of each other's arrival.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BarrierAlgorithm {
    /// One word counts and signals. A member that enters by an atomic addition takes the line and
    /// reads with it how many have entered. The next barrier's addition finds the line there. For
    /// two ranks this costs less than one line transfer per barrier.
    Word,
    /// Each member has a flag on its own line, and every member reads all flags. At most [`FLAGS`]
    /// members.
    Flags,
    /// The paper's method: one line counts and another signals, so that members that wait do not
    /// slow down members that enter.
    Signal,
}

/// One member's view of its group's barriers: private state.
///
/// ```
/// use strait_core::shm::{Barrier, BarrierAlgorithm, BarrierSlot};
///
/// let slot = BarrierSlot::empty();
/// let [mut first, mut second] =
///     [0, 1].map(|place| Barrier::new(BarrierAlgorithm::Signal, place, 2));
/// assert!(!first.enter(&slot));
/// assert!(!first.is_over(&slot), "the other member has not entered");
/// assert!(second.enter(&slot), "it enters last");
/// assert!(first.is_over(&slot) && second.is_over(&slot));
/// ```
#[derive(Debug)]
pub struct Barrier {
    way: BarrierAlgorithm,
    place: u32,
    members: u32,
    /// Number of barriers that this member has entered.
    epoch: u64,
    /// Number of members known to have entered the last barrier, in the order of their places
    /// ([`BarrierAlgorithm::Flags`]).
    seen: u32,
}

impl Barrier {
    /// Creates the view of member number `place` of `members`. All members use the same `way`.
    #[must_use]
    pub const fn new(way: BarrierAlgorithm, place: u32, members: u32) -> Self {
        let way = match way {
            BarrierAlgorithm::Flags if members as usize > FLAGS => BarrierAlgorithm::Signal,
            way => way,
        };
        Self { way, place, members, epoch: 0, seen: 0 }
    }

    /// Returns true if the barriers use the members' flags, which then serve no [`super::Steps`].
    #[must_use]
    pub const fn uses_flags(&self) -> bool {
        matches!(self.way, BarrierAlgorithm::Flags)
    }

    /// Enters the next barrier. The previous one is over, or was given up.
    ///
    /// Returns true if the barrier may be over as a result. Members that sleep while they wait for
    /// it must then be woken.
    #[inline(always)]
    #[must_use]
    pub fn enter(&mut self, slot: &BarrierSlot) -> bool {
        self.epoch += 1;
        let all = self.epoch * u64::from(self.members);
        let over = match self.way {
            BarrierAlgorithm::Word => {
                // ORDER barrier/4: Release, pairs with barrier/5: a member that sees the count
                //   knows what this member did before the barrier. The last member also loads the
                //   count, and finds the line in its own cache.
                slot.count.fetch_add(1, order("barrier/4", Release)) + 1 == all
            }
            BarrierAlgorithm::Flags => {
                self.seen = 0;
                slot.raise_flag(self.place, self.epoch);
                true
            }
            BarrierAlgorithm::Signal => {
                // ORDER barrier/8: AcqRel, pairs with itself: each member adds what it did to what
                //   it received, so the last one has all of it. barrier/9 passes it on.
                let before = slot.count.fetch_add(1, order("barrier/8", AcqRel));
                let last = before + 1 == all;
                if last {
                    // ORDER barrier/9: Release, pairs with barrier/10: what all members did comes
                    //   before the signal.
                    slot.signal.store(self.epoch, order("barrier/9", Release));
                }
                last
            }
        };
        reached(Step::BarrierEntered);
        over
    }

    /// Returns true if every member has entered the barrier that this member entered last.
    #[inline(always)]
    #[must_use]
    pub fn is_over(&mut self, slot: &BarrierSlot) -> bool {
        match self.way {
            // ORDER barrier/5: Acquire, pairs with barrier/4 of every member: additions pass on
            //   what was released.
            BarrierAlgorithm::Word => {
                let count = slot.count.load(order("barrier/5", Acquire));
                count >= self.epoch * u64::from(self.members)
            }
            BarrierAlgorithm::Flags => {
                while self.seen < self.members {
                    if slot.flag(self.seen) < self.epoch {
                        return false;
                    }
                    self.seen += 1;
                }
                true
            }
            // ORDER barrier/10: Acquire, pairs with barrier/9: all members have finished their work
            //   before the barrier.
            BarrierAlgorithm::Signal => {
                slot.signal.load(order("barrier/10", Acquire)) >= self.epoch
            }
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

    /// The leader's view.
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

        /// Claims the slot for all three ranks, with rank 0 as the leader.
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
        for way in [BarrierAlgorithm::Word, BarrierAlgorithm::Flags, BarrierAlgorithm::Signal] {
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
                        assert_eq!(over, way == BarrierAlgorithm::Flags || entering == 2);
                    }
                    assert!(members.iter_mut().all(|member| member.is_over(&slot)));
                }
                for seats in &ranks.seats {
                    assert_eq!(ranks.claim(&slot), None, "a member still has its seat");
                    seats.leave(SLOT);
                }
            }
        }
    }

    #[test]
    fn dead_ranks_have_no_seat() {
        let (slot, ranks) = (BarrierSlot::empty(), Three::new());
        assert_eq!(ranks.claim(&slot), Some(1));
        ranks.seats[0].leave(SLOT);
        ranks.seats[2].leave(SLOT);
        assert_eq!(slot.claim(2, &View(&ranks, 2)), None, "rank 1 lives");
        ranks.dead.set([false, true, false]);
        assert_eq!(slot.claim(2, &View(&ranks, 2)), Some(2));
    }

    #[test]
    fn a_rank_killed_during_its_claim_blocks_no_later_claim() {
        let (slot, ranks) = (BarrierSlot::empty(), Three::new());
        slot.claim.store(7 << 32 | 2, Relaxed);
        assert_eq!(slot.claim(2, &View(&ranks, 2)), None, "rank 1 is claiming");
        ranks.dead.set([false, true, false]);
        assert_eq!(slot.claim(2, &View(&ranks, 2)), Some(8));
    }

    #[test]
    fn joining_after_the_leader_has_left_is_refused() {
        let (slot, ranks) = (BarrierSlot::empty(), Three::new());
        let number = slot.claim(0, &View(&ranks, 0)).unwrap();
        ranks.seats[0].leave(SLOT);
        assert!(slot.claim(2, &View(&ranks, 2)).is_some());
        ranks.seats[1].take(SLOT);
        assert!(!slot.join(number));
    }

    #[test]
    fn retries_of_survivors_do_not_stand_in_for_a_dead_member() {
        for way in [BarrierAlgorithm::Word, BarrierAlgorithm::Flags, BarrierAlgorithm::Signal] {
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
    fn a_large_group_does_not_use_flags() {
        let slot = BarrierSlot::empty();
        let count = FLAGS as u32 + 1;
        let mut all: Vec<_> =
            (0..count).map(|place| Barrier::new(BarrierAlgorithm::Flags, place, count)).collect();
        for member in &mut all {
            let _ = member.enter(&slot);
        }
        assert!(all.iter_mut().all(|member| member.is_over(&slot)));
    }
}
