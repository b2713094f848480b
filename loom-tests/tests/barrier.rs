//! The barrier: a member that has left it sees everything done before it. Slots pass from group to
//! group.

use strait_core::shm::{Barrier, BarrierAlgorithm, BarrierSlot, Exchange, Ranks, Seats, Steps};
use strait_core::sync::UnsafeCell;
use strait_loom_tests::{Arc, model, model_in_full, model_within, thread};

/// A slot, and a number for each member of the group. Only the member writes its number, and only
/// between two barriers.
struct Shared {
    slot: BarrierSlot,
    numbers: Vec<UnsafeCell<u64>>,
}

// SAFETY: the models check that one thread at a time accesses a number.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(members: u32) -> Arc<Self> {
        let numbers = (0..members).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self { slot: BarrierSlot::empty(), numbers })
    }

    fn write(&self, member: u32, number: u64) {
        // SAFETY: the models check that one thread at a time accesses a number (see `Sync`).
        self.numbers[member as usize].with_mut(|place| unsafe { *place = number });
    }

    fn read(&self, member: u32) -> u64 {
        // SAFETY: the models check that one thread at a time accesses a number (see `Sync`).
        self.numbers[member as usize].with(|place| unsafe { *place })
    }
}

/// A member of the group. It polls a bounded number of times for the end of a barrier, and stops if
/// it does not see the end.
struct Member {
    shared: Arc<Shared>,
    barrier: Barrier,
    place: u32,
    members: u32,
}

impl Member {
    fn all(way: BarrierAlgorithm, members: u32) -> Vec<Self> {
        let shared = Shared::new(members);
        let member = |place| Self {
            shared: Arc::clone(&shared),
            barrier: Barrier::new(way, place, members),
            place,
            members,
        };
        (0..members).map(member).collect()
    }

    /// Writes a number, enters barrier `number`, and checks the other members' numbers after the
    /// barrier. The same numbers are written again two barriers later, so a member that is still in
    /// the first barrier is detected.
    fn meet(&mut self, number: u64) -> bool {
        self.shared.write(self.place, number);
        let _ = self.barrier.enter(&self.shared.slot);
        if !self.sees_the_end() {
            return false;
        }
        self.check(number);
        // No member writes before all have read.
        let _ = self.barrier.enter(&self.shared.slot);
        self.sees_the_end()
    }

    /// Polls twice. With three members, polls once, which is enough work for loom.
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
            assert_eq!(self.shared.read(other), number, "left before member {other} entered");
        }
    }

    /// Runs at most this many rounds of two barriers.
    fn go(mut self, rounds: u64) -> Self {
        let _ = (1..=rounds).all(|number| self.meet(number));
        self
    }
}

fn meetings(way: BarrierAlgorithm, members: u32, rounds: u64) {
    let mut all = Member::all(way, members);
    let last = all.pop().unwrap();
    let threads: Vec<_> =
        all.into_iter().map(|member| thread::spawn(move || member.go(rounds))).collect();
    let mut ended = vec![last.go(rounds)];
    ended.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
}

#[test]
fn two_meet_at_a_word() {
    model_within(4, || meetings(BarrierAlgorithm::Word, 2, 2));
}

#[test]
fn two_meet_by_flags() {
    model(|| meetings(BarrierAlgorithm::Flags, 2, 2));
}

#[test]
fn two_meet_by_count_and_signal() {
    model_within(4, || meetings(BarrierAlgorithm::Signal, 2, 2));
}

#[test]
fn three_meet_at_a_word() {
    model(|| meetings(BarrierAlgorithm::Word, 3, 1));
}

#[test]
fn three_meet_by_flags() {
    model(|| meetings(BarrierAlgorithm::Flags, 3, 1));
}

#[test]
fn three_meet_by_count_and_signal() {
    model(|| meetings(BarrierAlgorithm::Signal, 3, 1));
}

/// Exchanges three numbers, so that the words of the first are written again. Stops when it does
/// not see the end of an exchange.
fn exchange(place: u32, slot: &BarrierSlot) {
    let mut view = Exchange::new(place);
    for number in 1..=3_u8 {
        let _ = view.enter(slot.exchange(), &[10 * number + place as u8]);
        let mut theirs = [0];
        if view.take(slot.exchange(), &mut theirs).is_none() {
            thread::yield_now();
            if view.take(slot.exchange(), &mut theirs).is_none() {
                return;
            }
        }
        assert_eq!(theirs, [10 * number + 1 - place as u8], "exchange {number}");
    }
}

#[test]
fn two_exchange_vectors() {
    model_within(4, || {
        let slot = Arc::new(BarrierSlot::empty());
        let other = Arc::clone(&slot);
        let thread = thread::spawn(move || exchange(1, &other));
        exchange(0, &slot);
        thread.join().unwrap();
    });
}

/// All members have entered when all threads are joined, so each member must see the end.
fn seen_after_the_join(way: BarrierAlgorithm) {
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
        assert!(member.look(), "a member does not see the end of the barrier");
        member.check(1);
    }
}

#[test]
fn nobody_is_missing() {
    model(|| seen_after_the_join(BarrierAlgorithm::Word));
    model(|| seen_after_the_join(BarrierAlgorithm::Flags));
    model(|| seen_after_the_join(BarrierAlgorithm::Signal));
}

/// The number of the slot.
const SLOT: u32 = 3;

/// One slot and the seats of up to three ranks, all alive.
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

/// Both members of a group use its slot once more and leave. Meanwhile the leader of another group
/// wants the slot.
fn handed_on(way: BarrierAlgorithm) {
    let place = Place::new(3);
    let number = place.claim(0).expect("the slot is free");
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
        // The yield lets loom explore a departure before the poll, too.
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
        assert!(place.claim(2).is_some(), "a slot that all members have left is not free");
        found_clean(way, place.slot());
    }
    assert_eq!(place.claim(1), None, "the slot is in use");
}

/// Checks that the slot has no state of the previous group: one of two members does not pass a
/// barrier, and both do.
fn found_clean(way: BarrierAlgorithm, slot: &BarrierSlot) {
    let [mut first, mut second] = [0, 1].map(|place| Barrier::new(way, place, 2));
    let _ = first.enter(slot);
    assert!(!first.is_over(slot), "met a member of the previous group");
    let _ = second.enter(slot);
    assert!(first.is_over(slot) && second.is_over(slot), "state of the previous group is left");
}

#[test]
fn a_slot_is_handed_on_clean() {
    model_in_full(|| handed_on(BarrierAlgorithm::Word));
    model_in_full(|| handed_on(BarrierAlgorithm::Flags));
    model_in_full(|| handed_on(BarrierAlgorithm::Signal));
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
        assert_ne!(ours, theirs, "both groups or neither got the slot");
        assert_eq!(place.claim(0), None, "the slot is in use");
    });
}

/// The leader has left before a member of its group joins, and another leader wants the slot.
#[test]
fn who_joins_late_is_seen_or_told() {
    model_in_full(|| {
        let place = Place::new(3);
        let number = place.claim(0).expect("the slot is free");
        place.seats[0].leave(SLOT);
        let late = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.join(1, number))
        };
        let claimed = place.claim(2).is_some();
        let joined = late.join().unwrap();
        assert!(!(claimed && joined), "two groups use one slot");
    });
}

/// A member shows a number in each of some steps, with room for two of them, and the other member
/// reads each. The first is at most two steps ahead, so that it overwrites no number that the
/// other has still to read.
#[test]
fn a_member_of_steps_runs_ahead_by_what_there_is_room_for() {
    const ROOM: u64 = 2;
    model(|| {
        let shared = Shared::new(ROOM as u32);
        let [mut first, mut second] = [0, 1].map(|place| Steps::new(place, 2).unwrap());
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for step in 1..=ROOM + 1 {
                    second.enter(&shared.slot);
                    if !second.has_entered(&shared.slot, 0) {
                        thread::yield_now();
                        if !second.has_entered(&shared.slot, 0) {
                            return;
                        }
                    }
                    assert_eq!(shared.read((step % ROOM) as u32), step);
                }
            })
        };
        for step in 1..=ROOM + 1 {
            // The other has read the number of step n when it has entered step n + 1.
            if step > ROOM && !first.have_all_entered(&shared.slot, step + 1 - ROOM) {
                break;
            }
            shared.write((step % ROOM) as u32, step);
            first.enter(&shared.slot);
        }
        reader.join().unwrap();
    });
}
