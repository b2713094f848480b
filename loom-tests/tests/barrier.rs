//! The barrier: who has left it knows all that was done before it, and slots go from group to group.

use strait_core::shm::{Barrier, BarrierSlot, Ranks, Seats, Way};
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model, model_in_full, model_within, thread};

/// A slot, and for each member of the group a number that it alone writes, and only between two barriers.
struct Shared {
    slot: BarrierSlot,
    numbers: Vec<UnsafeCell<u64>>,
}

// SAFETY: that the numbers are reached by one thread at a time is what the models are there to find out.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(members: u32) -> Arc<Self> {
        let numbers = (0..members).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self { slot: BarrierSlot::empty(), numbers })
    }

    fn write(&self, member: u32, number: u64) {
        // SAFETY: see `Shared`.
        self.numbers[member as usize].with_mut(|place| unsafe { *place = number });
    }

    fn read(&self, member: u32) -> u64 {
        // SAFETY: see `Shared`.
        self.numbers[member as usize].with(|place| unsafe { *place })
    }
}

/// A member of the group. It looks a bounded number of times for the end of a barrier, and goes no further when it does
/// not see it.
struct Member {
    shared: Arc<Shared>,
    barrier: Barrier,
    place: u32,
    members: u32,
}

impl Member {
    fn all(way: Way, members: u32) -> Vec<Self> {
        let shared = Shared::new(members);
        let member = |place| Self {
            shared: Arc::clone(&shared),
            barrier: Barrier::new(way, place, members),
            place,
            members,
        };
        (0..members).map(member).collect()
    }

    /// Enters barrier `number` with something done before it, and checks what the others did when it is over. Two barriers
    /// later the same places are written again, so that who is still in the first would be caught.
    fn meet(&mut self, number: u64) -> bool {
        self.shared.write(self.place, number);
        let _ = self.barrier.enter(&self.shared.slot);
        if !self.sees_the_end() {
            return false;
        }
        self.check(number);
        // Nobody writes before all have read.
        let _ = self.barrier.enter(&self.shared.slot);
        self.sees_the_end()
    }

    /// Two looks; of three members one each, which are enough to keep loom busy.
    fn sees_the_end(&mut self) -> bool {
        self.look()
            || self.members == 2 && {
                thread::yield_now();
                self.look()
            }
    }

    fn look(&mut self) -> bool {
        self.barrier.is_over(&self.shared.slot)
    }

    fn check(&self, number: u64) {
        for other in 0..self.members {
            assert_eq!(self.shared.read(other), number, "left before {other} had entered");
        }
    }

    /// So many rounds of two barriers, as far as it gets.
    fn go(mut self, rounds: u64) -> Self {
        let _ = (1..=rounds).all(|number| self.meet(number));
        self
    }
}

fn meetings(way: Way, members: u32, rounds: u64) {
    let mut all = Member::all(way, members);
    let last = all.pop().unwrap();
    let threads: Vec<_> =
        all.into_iter().map(|member| thread::spawn(move || member.go(rounds))).collect();
    let mut ended = vec![last.go(rounds)];
    ended.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
}

#[test]
fn two_meet_at_a_word() {
    model_within(4, || meetings(Way::Word, 2, 2));
}

#[test]
fn two_meet_by_flags() {
    model(|| meetings(Way::Flags, 2, 2));
}

#[test]
fn two_meet_by_count_and_signal() {
    model_within(4, || meetings(Way::Signal, 2, 2));
}

#[test]
fn three_meet_at_a_word() {
    model(|| meetings(Way::Word, 3, 1));
}

#[test]
fn three_meet_by_flags() {
    model(|| meetings(Way::Flags, 3, 1));
}

#[test]
fn three_meet_by_count_and_signal() {
    model(|| meetings(Way::Signal, 3, 1));
}

/// Everybody has entered when all are joined: then everybody must see it.
fn seen_after_the_join(way: Way) {
    let mut all = Member::all(way, 3);
    let enter = |mut member: Member| {
        member.shared.write(member.place, 1);
        let _ = member.barrier.enter(&member.shared.slot);
        member
    };
    let last = all.pop().unwrap();
    let threads: Vec<_> =
        all.into_iter().map(|member| thread::spawn(move || enter(member))).collect();
    let mut ended = vec![enter(last)];
    ended.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    for member in &mut ended {
        assert!(member.look(), "a member is missing in the barrier");
        member.check(1);
    }
}

#[test]
fn nobody_is_missing() {
    model(|| seen_after_the_join(Way::Word));
    model(|| seen_after_the_join(Way::Flags));
    model(|| seen_after_the_join(Way::Signal));
}

/// The number of the slot.
const SLOT: u32 = 3;

/// One slot and the seats of up to three ranks, who all live.
struct Place {
    shared: Arc<Shared>,
    seats: Vec<Seats>,
}

impl Place {
    fn new(ranks: u32) -> Arc<Self> {
        let seats = (0..ranks).map(|_| Seats::none()).collect();
        Arc::new(Self { shared: Shared::new(0), seats })
    }

    fn slot(&self) -> &BarrierSlot {
        &self.shared.slot
    }

    fn claim(&self, leader: u32) -> Option<u32> {
        self.slot().claim(leader, &View { place: self, leader })
    }

    fn join(&self, rank: u32, number: u32) -> bool {
        self.seats[rank as usize].take(SLOT);
        let joined = self.slot().join(number);
        if !joined {
            self.seats[rank as usize].leave(SLOT);
        }
        joined
    }
}

/// The ranks, as a leader sees them.
struct View<'a> {
    place: &'a Place,
    leader: u32,
}

impl Ranks for View<'_> {
    fn sit(&self) -> bool {
        self.place.seats.iter().any(|seats| seats.has(SLOT))
    }

    fn lives(&self, _: u32) -> bool {
        true
    }

    fn seat_leader(&self) {
        self.place.seats[self.leader as usize].take(SLOT);
    }
}

/// Both members of a group use its slot once more and leave. The leader of another group wants the slot meanwhile.
fn handed_on(way: Way) {
    let place = Place::new(3);
    let number = place.claim(0).expect("it is free");
    assert!(place.join(1, number));
    let members: Vec<_> = (0..2)
        .map(|rank| {
            let place = Arc::clone(&place);
            thread::spawn(move || {
                let _ = Barrier::new(way, rank, 2).enter(place.slot());
                place.seats[rank as usize].leave(SLOT);
            })
        })
        .collect();
    let mut claimed = false;
    for _ in 0..2 {
        // So that loom lets them leave before the look, and not only behind it.
        thread::yield_now();
        claimed = place.claim(2).is_some();
        if claimed {
            found_clean(way, place.slot());
            break;
        }
    }
    for member in members {
        member.join().unwrap();
    }
    if !claimed {
        assert!(place.claim(2).is_some(), "a slot that all have left is not free");
        found_clean(way, place.slot());
    }
    assert_eq!(place.claim(1), None, "it is taken");
}

/// Nothing of the old group's stands in the slot: one of two members does not meet anybody, and both do.
fn found_clean(way: Way, slot: &BarrierSlot) {
    let [mut first, mut second] = [0, 1].map(|place| Barrier::new(way, place, 2));
    let _ = first.enter(slot);
    assert!(!first.is_over(slot), "met a member of the group before");
    let _ = second.enter(slot);
    assert!(first.is_over(slot) && second.is_over(slot), "the group before is in the way");
}

#[test]
fn a_slot_is_handed_on_clean() {
    model_in_full(|| handed_on(Way::Word));
    model_in_full(|| handed_on(Way::Flags));
    model_in_full(|| handed_on(Way::Signal));
}

#[test]
fn one_of_two_groups_gets_the_slot() {
    model_in_full(|| {
        let place = Place::new(2);
        let other = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.claim(1).is_some())
        };
        let ours = place.claim(0).is_some();
        let theirs = other.join().unwrap();
        assert_ne!(ours, theirs, "both or none got it");
        assert_eq!(place.claim(0), None, "it is taken");
    });
}

/// The leader has left before a member of its group came to join, and another leader wants the slot.
#[test]
fn who_joins_late_is_seen_or_told() {
    model_in_full(|| {
        let place = Place::new(3);
        let number = place.claim(0).expect("it is free");
        place.seats[0].leave(SLOT);
        let late = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.join(1, number))
        };
        let claimed = place.claim(2).is_some();
        let joined = late.join().unwrap();
        assert!(!(claimed && joined), "two groups are in one slot");
    });
}
