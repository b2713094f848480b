//! Accumulates, in all the ways that they are done.

use core::ptr::NonNull;

use fastrand::Rng;
use strait_core::progress::Part;
use strait_core::reduce::{Number as _, Op};
use strait_core::rma::{
    self, Block, Deed, Errand, Exchange, Locked, LockedTurn, Place, STRIPE, Turn,
};

use super::member::Member;
use super::{Kind, Stepped};

/// What is done to numbers.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Each is combined with one of these.
    Combine(Op, Vec<u64>),
    /// One is swapped if it is the first of these.
    Swap(u64, u64),
}

impl Act {
    /// What becomes of the number in a place.
    fn of(&self, old: u64, at: usize) -> u64 {
        match self {
            Self::Combine(op, operands) => {
                u64::function(*op).expect("integers have all")(old, operands[at])
            }
            Self::Swap(compare, new) => [old, *new][usize::from(old == *compare)],
        }
    }

    const fn count(&self) -> usize {
        match self {
            Self::Combine(_, operands) => operands.len(),
            Self::Swap(..) => 1,
        }
    }
}

/// By what it is done.
enum By {
    /// What it will be is not decided.
    Nothing,
    /// Atomics of the device.
    Exchange(Exchange<Box<dyn FnMut(u64) -> u64>>),
    Once(Exchange<fn(u64) -> u64>),
    /// A lock that devices take.
    Locked(Locked),
    /// The target's handler: before there is room for it, before it is sent, after.
    Room,
    Filled,
    Sent,
    /// A lock that processors take: before it is had, and after.
    Lock,
    Held,
}

/// One accumulate on its way.
pub(super) struct Change {
    pub(super) target: u32,
    offset: usize,
    act: Act,
    gives: bool,
    by: By,
    /// Numbers that are done, and how many are under way.
    done: usize,
    now: usize,
}

impl core::fmt::Debug for Change {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { target, offset, act, done, .. } = self;
        write!(f, "{act:?} at {offset} of {target}, {done} done")
    }
}

impl Change {
    pub(super) const fn new(target: u32, offset: usize, act: Act, gives: bool) -> Self {
        Self { target, offset, act, gives, by: By::Nothing, done: 0, now: 0 }
    }

    /// A step. `Some(true)`: it is done; `None`: not now.
    pub(super) fn step(&mut self, member: &mut Member, rng: &mut Rng) -> Stepped {
        let before = match &mut self.by {
            By::Nothing => {
                self.choose(member, rng);
                return Ok(Some(false));
            }
            By::Exchange(_) | By::Once(_) => self.exchange(member)?,
            By::Locked(_) => self.change_locked(member)?,
            By::Room | By::Filled | By::Sent => self.hand_over(member)?,
            By::Lock | By::Held => self.change_near(member),
        };
        Ok(match before {
            Turn::Held(_) => None,
            Turn::On => Some(false),
            Turn::Done(before) => {
                if self.gives {
                    member.got.push(before);
                }
                self.done += self.now;
                self.by = By::Nothing;
                Some(self.done == self.act.count())
            }
        })
    }

    const fn at(&self) -> usize {
        self.offset + 8 * self.done
    }

    /// How the next of the numbers are done, which one lock stands for.
    fn choose(&mut self, member: &Member, rng: &mut Rng) {
        let left = self.act.count() - self.done;
        self.now = left.min((STRIPE - self.at() % STRIPE) / 8);
        let spot = member.spots[self.target as usize];
        let (there, at) = (spot.part.after(self.at()), self.done);
        self.by = match (member.kind, &self.act) {
            (Kind::Device, act) => {
                self.now = 1;
                match act {
                    Act::Combine(Op::Sum, operands) => {
                        By::Once(Exchange::once(there, rma::Change::Add(operands[at])))
                    }
                    Act::Swap(expected, desired) => {
                        let (expected, desired) = (*expected, *desired);
                        let change = rma::Change::Swap { expected, desired };
                        By::Once(Exchange::once(there, change))
                    }
                    act => {
                        let act = act.clone();
                        By::Exchange(Exchange::by(there, Box::new(move |old| act.of(old, at))))
                    }
                }
            }
            (Kind::Handled, _) if member.near(self.target).is_some() => By::Lock,
            (Kind::Handled, _) => By::Room,
            (Kind::Locks { handed }, _) if self.target != member.place && rng.u32(..3) < handed => {
                By::Room
            }
            (Kind::Locks { .. }, _) => {
                let (scratch, key) = member.scratch;
                let here = Part { length: 8 * self.now, ..scratch };
                let lock = spot.block.after(Block::stripe_offset(self.at()));
                By::Locked(Locked::new(member.place, lock, here, key, there))
            }
        };
    }

    fn exchange(&mut self, member: &mut Member) -> Result<Turn<u64>, rma::LaneError> {
        let (lane, device) = member.lane(self.target);
        let turn = match &mut self.by {
            By::Exchange(exchange) => exchange.step(lane, device)?,
            By::Once(exchange) => exchange.step(lane, device)?,
            _ => None,
        };
        Ok(turn.unwrap_or(Turn::Held(0)))
    }

    fn change_locked(&mut self, member: &mut Member) -> Result<Turn<u64>, rma::LaneError> {
        // Accumulates of one origin are carried out in their order.
        if !member.are_errands_done(self.target) {
            return Ok(Turn::Held(0));
        }
        let By::Locked(locked) = &mut self.by else { return Ok(Turn::On) };
        let (scratch, _) = member.scratch;
        let (lane, device) = member.lane(self.target);
        // SAFETY: the scratch is the member's, which does one thing at a time.
        Ok(match unsafe { locked.step(lane, device) }? {
            None => Turn::Held(0),
            Some(Turn::Done(LockedTurn::Fetched)) => {
                for number in 0..self.now {
                    // SAFETY: the device is done with the scratch.
                    unsafe {
                        let place = scratch.base.cast::<u64>().add(number);
                        let old = place.read();
                        if self.gives {
                            member.got.push(old);
                        }
                        place.write(self.act.of(old, self.done + number));
                    }
                }
                self.gives = false;
                Turn::On
            }
            Some(Turn::Done(LockedTurn::Asked)) => Turn::Done(0),
            Some(Turn::Held(holder)) => {
                assert!(holder <= member.spots.len() as u64, "the lock says {holder}");
                Turn::Held(holder)
            }
            Some(Turn::On) => Turn::On,
        })
    }

    fn hand_over(&mut self, member: &mut Member) -> Result<Turn<u64>, rma::LaneError> {
        let target = self.target as usize;
        let (words, trays) = (member.own().words, member.trays[target]);
        let (done, mut errands) = (words.acknowledgements(self.target), member.errands[target]);
        let (deed, mut operands) = match &self.act {
            Act::Combine(op, operands) => {
                (Deed::Combine(*op), operands[self.done..self.done + self.now].to_vec())
            }
            Act::Swap(compare, new) => (Deed::Swap, vec![*compare, *new]),
        };
        let length = 8 * operands.len();
        let (next, turn) = match self.by {
            By::Room
                if !errands.have_room(done) || !errands.have_image(&member.lanes[target])? =>
            {
                return Ok(Turn::Held(0));
            }
            By::Room => {
                let errand = Errand::new::<u64>(deed, self.at(), self.now, self.gives);
                let operands = Part { base: NonNull::from(&mut operands[..]).cast(), length };
                // SAFETY: there is room, and they fit.
                unsafe { errands.fill(&trays, &errand, operands) };
                (By::Filled, Turn::On)
            }
            By::Filled => {
                let (lane, device) = member.lane(self.target);
                // SAFETY: the images stay as long as the member.
                let sent = unsafe { errands.send(lane, device, &trays, length) };
                member.errands[target] = errands;
                match sent? {
                    false => return Ok(Turn::Held(0)),
                    true if self.gives => (By::Sent, Turn::On),
                    true => (By::Sent, Turn::Done(0)),
                }
            }
            _ if !errands.are_done(done) => return Ok(Turn::Held(0)),
            _ => {
                let mut before = 0_u64;
                let into = Part { base: NonNull::from(&mut before).cast(), length: 8 };
                // SAFETY: it gives one number.
                unsafe { errands.take(&trays, into) };
                (By::Sent, Turn::Done(before))
            }
        };
        self.by = next;
        Ok(turn)
    }

    /// Under the lock that processors take.
    fn change_near(&mut self, member: &mut Member) -> Turn<u64> {
        let spot = member.spots[self.target as usize];
        let lock = spot.words.stripe(self.at());
        if let By::Lock = self.by {
            if lock.try_acquire(member.place).is_err() {
                return Turn::Held(0);
            }
            self.by = By::Held;
            return Turn::On;
        }
        let mut before = 0;
        for number in (0..self.now).rev() {
            // SAFETY: in the part, and aligned.
            let place = unsafe { Place::<u64>::new(spot.memory.base.add(self.at() + 8 * number)) };
            before = place.load();
            place.store(self.act.of(before, self.done + number));
        }
        lock.release(member.place);
        Turn::Done(before)
    }
}
