//! Accumulates in a window that spans nodes and whose devices have atomics: all of them by the device, also those to a member on
//! this node and to oneself, since its atomics and the processor's are not atomic towards each other (`[OneSided04]` §3.3.1).

use core::ptr::NonNull;

use bytemuck::{bytes_of, bytes_of_mut};
use strait_core::hca::Remote;
use strait_core::layout::Corrupt;
use strait_core::progress::Part as Buffer;
use strait_core::reduce::{Integer, Op};
use strait_core::rma::{Block, Change, Exchange, Locked, LockedTurn, Turn, is_sum_of_words};

use super::far::Far;
use super::part::Part;
use super::{AtomicityDomain, Window, WindowError};
use crate::{Error, Number};

/// A number that the device can change: which member's, and where.
pub(super) type FarNumber<'a> = (&'a Far, Remote);

impl Window<'_> {
    /// Where a number lies that atomics of the device reach; `None`: they are not this window's way, or not for such numbers.
    pub(super) fn number<'a, T>(&self, part: &'a Part, offset: usize) -> Option<FarNumber<'a>> {
        let far = part.far.as_ref()?;
        let is_word = self.domain == AtomicityDomain::Device && size_of::<T>() == size_of::<u64>();
        is_word.then(|| (far, far.part.get().after(offset)))
    }

    /// One fetch-and-add where that does it, and otherwise compare-and-swap until nobody comes in between.
    pub(super) fn fetch_and_op_far<T: Number>(
        &self,
        (far, there): FarNumber<'_>,
        op: Op,
        operand: T,
    ) -> Result<T, Error> {
        let function = T::function(op).ok_or(WindowError::Operation { op, of: T::NAME })?;
        if is_sum_of_words::<T>(op) {
            let change = Change::Add(word(operand));
            return self.exchange(far, Exchange::once(there, change)).map(number);
        }
        let change = |old| word(function(number(old), operand));
        self.exchange(far, Exchange::by(there, change)).map(number)
    }

    pub(super) fn compare_and_swap_far<T: Number + Integer>(
        &self,
        (far, there): FarNumber<'_>,
        compare: T,
        new: T,
    ) -> Result<T, Error> {
        let change = Change::Swap { expected: word(compare), desired: word(new) };
        self.exchange(far, Exchange::once(there, change)).map(number)
    }

    /// Changes a word by atomics of the device, and gives what was there.
    fn exchange<F: FnMut(u64) -> u64>(
        &self,
        far: &Far,
        mut exchange: Exchange<F>,
    ) -> Result<u64, Error> {
        loop {
            let turn = self.ask(far, |lane, device| exchange.step(lane, device))?;
            if let Turn::Done(found) = turn {
                return Ok(found);
            }
        }
    }

    /// The words with the locks of a part, where processors take them and this one reaches them.
    pub(super) const fn block_for_locks<'a>(&self, part: &'a Part) -> Option<&'a Block> {
        match part.far {
            Some(_) if !self.handled => None,
            _ => part.block.as_ref(),
        }
    }

    /// Fetches numbers that one lock stands for, has them changed, and writes them back, while no other accumulate does.
    pub(super) fn change_locked_far<T: Number>(
        &self,
        part: &Part,
        offset: usize,
        count: usize,
        change: impl FnOnce(&mut [T]),
    ) -> Result<(), Error> {
        let Some((far, (base, key))) = part.far.as_ref().zip(self.scratch()) else {
            return Err(WindowError::OtherNode { rank: part.rank }.into());
        };
        // Accumulates of one origin are carried out in their order.
        self.await_all_errands(part)?;
        let here = Buffer { base, length: count * size_of::<T>() };
        let lock = far.block.after(Block::stripe_offset(offset));
        let there = far.part.get().after(offset);
        let mut locked = Locked::new(self.world.rank(), lock, here, key, there);
        let mut change = Some(change);
        loop {
            // SAFETY: the scratch is a stripe long, and nobody else's; the numbers lie in the part, as the callers have seen to.
            let turn = self.ask(far, |lane, device| unsafe { locked.step(lane, device) });
            let turn = turn.inspect_err(|_| {
                // The device may still be about the scratch.
                self.world.with_network(|network| network.break_lane(far.lane));
            })?;
            match turn {
                Turn::On => {}
                Turn::Held(found) => {
                    if self.is_holder_gone(found)? {
                        locked.take_over(found);
                    }
                    // The holder may be waiting for what this rank has to do.
                    self.world.poll()?;
                    std::thread::yield_now();
                }
                Turn::Done(LockedTurn::Fetched) => {
                    // SAFETY: the device is done with the scratch, which is aligned to a page; any bytes are good for numbers.
                    let numbers =
                        unsafe { NonNull::slice_from_raw_parts(base.cast(), count).as_mut() };
                    change.take().into_iter().for_each(|change| change(numbers));
                }
                Turn::Done(LockedTurn::Asked) => return Ok(()),
            }
        }
    }

    /// Whether the rank that a lock's word names has died or left.
    fn is_holder_gone(&self, found: u64) -> Result<bool, Error> {
        // The word was 0 when it was found, and is free.
        let Some(name) = found.checked_sub(1) else { return Ok(true) };
        match u32::try_from(name) {
            Ok(rank) if rank < self.world.size() => {
                self.world.watch_over(rank);
                Ok(self.world.turn().gone(rank).is_some())
            }
            _ => Err(Corrupt::Holder { found: u32::try_from(name).unwrap_or(u32::MAX) }.into()),
        }
    }
}

/// The word that holds a number, in its lowest bytes.
pub(super) fn word<T: Number>(number: T) -> u64 {
    let mut word = 0;
    bytes_of_mut(&mut word)[..size_of::<T>()].copy_from_slice(bytes_of(&number));
    word
}

/// The number that a word holds.
pub(super) fn number<T: Number>(word: u64) -> T {
    let mut number = T::zeroed();
    bytes_of_mut(&mut number).copy_from_slice(&bytes_of(&word)[..size_of::<T>()]);
    number
}
