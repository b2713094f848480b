//! Accumulates, in all the ways in which they are carried out.

use core::ptr::NonNull;

use fastrand::Rng;
use strait_core::buffer::Part;
use strait_core::reduce::{Op, Reducible as _};
use strait_core::rma::{
    self, ActiveMessage, AmOperation, FetchUpdate, LockedResult, LockedUpdate, STRIPE,
    SharedNumber, StepResult, WindowBlock,
};

use super::member::Member;
use super::{Kind, Stepped};

/// The change of the numbers.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Each number is combined with one of these operands.
    Combine(Op, Vec<u64>),
    /// One number is replaced by the second value if it equals the first.
    Swap(u64, u64),
}

impl Act {
    /// Returns the new value of the number in a place.
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

/// The way in which numbers are changed.
enum By {
    /// Not decided yet.
    Nothing,
    /// Atomics of the device.
    Exchange(FetchUpdate<Box<dyn FnMut(u64) -> u64>>),
    Once(FetchUpdate<fn(u64) -> u64>),
    /// A lock that devices take.
    Locked(LockedUpdate),
    /// The target's active-message handler: before there is room for the message, before it is
    /// sent, after.
    Room,
    Filled,
    Sent,
    /// A lock that processors take: before it is acquired, and after.
    Lock,
    Held,
}

/// One accumulate under way.
pub(super) struct Change {
    pub(super) target: u32,
    offset: usize,
    act: Act,
    gives: bool,
    by: By,
    /// Number of completed elements, and of elements under way.
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

    /// Takes a step. Returns `Some(true)` if the accumulate is complete, and `None` if it cannot
    /// proceed now.
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
            StepResult::Held(_) => None,
            StepResult::On => Some(false),
            StepResult::Done(before) => {
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

    /// Chooses the way for the next of the numbers, which are covered by one lock.
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
                        By::Once(FetchUpdate::once(there, rma::AtomicOp::Add(operands[at])))
                    }
                    Act::Swap(expected, desired) => {
                        let (expected, desired) = (*expected, *desired);
                        let change = rma::AtomicOp::Swap { expected, desired };
                        By::Once(FetchUpdate::once(there, change))
                    }
                    act => {
                        let act = act.clone();
                        By::Exchange(FetchUpdate::by(there, Box::new(move |old| act.of(old, at))))
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
                let lock = spot.block.after(WindowBlock::stripe_offset(self.at()));
                By::Locked(LockedUpdate::new(member.place, lock, here, key, there))
            }
        };
    }

    fn exchange(&mut self, member: &mut Member) -> Result<StepResult<u64>, rma::LaneError> {
        let (lane, device) = member.lane(self.target);
        let turn = match &mut self.by {
            By::Exchange(exchange) => exchange.step(lane, device)?,
            By::Once(exchange) => exchange.step(lane, device)?,
            _ => None,
        };
        Ok(turn.unwrap_or(StepResult::Held(0)))
    }

    fn change_locked(&mut self, member: &mut Member) -> Result<StepResult<u64>, rma::LaneError> {
        // Accumulates of one origin are carried out in their order.
        if !member.are_active_messages_done(self.target) {
            return Ok(StepResult::Held(0));
        }
        let By::Locked(locked) = &mut self.by else { return Ok(StepResult::On) };
        let (scratch, _) = member.scratch;
        let (lane, device) = member.lane(self.target);
        // SAFETY: the scratch belongs to the member, which does one operation at a time.
        Ok(match unsafe { locked.step(lane, device) }? {
            None => StepResult::Held(0),
            Some(StepResult::Done(LockedResult::Fetched)) => {
                for number in 0..self.now {
                    // SAFETY: the device no longer uses the scratch.
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
                StepResult::On
            }
            Some(StepResult::Done(LockedResult::Asked)) => StepResult::Done(0),
            Some(StepResult::Held(holder)) => {
                assert!(holder <= member.spots.len() as u64, "the lock names {holder}");
                StepResult::Held(holder)
            }
            Some(StepResult::On) => StepResult::On,
        })
    }

    fn hand_over(&mut self, member: &mut Member) -> Result<StepResult<u64>, rma::LaneError> {
        let target = self.target as usize;
        let (words, operand_buffers) = (member.own().words, member.operand_buffers[target]);
        let (done, mut active_messages) =
            (words.acknowledgements(self.target), member.active_messages[target]);
        let (deed, mut operands) = match &self.act {
            Act::Combine(op, operands) => {
                (AmOperation::Combine(*op), operands[self.done..self.done + self.now].to_vec())
            }
            Act::Swap(compare, new) => (AmOperation::Swap, vec![*compare, *new]),
        };
        let length = 8 * operands.len();
        let (next, turn) = match self.by {
            By::Room
                if !active_messages.have_room(done)
                    || !active_messages.have_image(&member.lanes[target])? =>
            {
                return Ok(StepResult::Held(0));
            }
            By::Room => {
                let active_message =
                    ActiveMessage::new::<u64>(deed, self.at(), self.now, self.gives);
                let operands = Part { base: NonNull::from(&mut operands[..]).cast(), length };
                // SAFETY: there is room, and the operands fit.
                unsafe { active_messages.fill(&operand_buffers, &active_message, operands) };
                (By::Filled, StepResult::On)
            }
            By::Filled => {
                let (lane, device) = member.lane(self.target);
                // SAFETY: the images live as long as the member.
                let sent = unsafe { active_messages.send(lane, device, &operand_buffers, length) };
                member.active_messages[target] = active_messages;
                match sent? {
                    false => return Ok(StepResult::Held(0)),
                    true if self.gives => (By::Sent, StepResult::On),
                    true => (By::Sent, StepResult::Done(0)),
                }
            }
            _ if !active_messages.are_done(done) => return Ok(StepResult::Held(0)),
            _ => {
                let mut before = 0_u64;
                let into = Part { base: NonNull::from(&mut before).cast(), length: 8 };
                // SAFETY: the operation returns one number.
                unsafe { active_messages.take(&operand_buffers, into) };
                (By::Sent, StepResult::Done(before))
            }
        };
        self.by = next;
        Ok(turn)
    }

    /// Changes the numbers under the lock that processors take.
    fn change_near(&mut self, member: &mut Member) -> StepResult<u64> {
        let spot = member.spots[self.target as usize];
        let lock = spot.words.stripe(self.at());
        if let By::Lock = self.by {
            if lock.try_acquire(member.place).is_err() {
                return StepResult::Held(0);
            }
            self.by = By::Held;
            return StepResult::On;
        }
        let mut before = 0;
        for number in (0..self.now).rev() {
            // SAFETY: the number lies in the part, and is aligned.
            let place =
                unsafe { SharedNumber::<u64>::new(spot.memory.base.add(self.at() + 8 * number)) };
            before = place.load();
            place.store(self.act.of(before, self.done + number));
        }
        lock.release(member.place);
        StepResult::Done(before)
    }
}
