//! Accumulates in a window that spans nodes and whose devices have atomics: all of them by the device, also those to a member on
//! this node and to oneself, since its atomics and the processor's are not atomic towards each other (`[OneSided04]` §3.3.1).

use core::ptr::NonNull;

use bytemuck::{bytes_of, bytes_of_mut};
use strait_core::hca::Remote;
use strait_core::progress::Way;
use strait_core::reduce::{Integer, Op};
use strait_core::rma::{Block, Change, SLOT, is_sum_of_words};
use strait_core::sync::{Step, reached};

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
            return self.change(far, there, Change::Add(word(operand))).map(number);
        }
        let mut expected = self.change(far, there, Change::Add(0))?;
        loop {
            let desired = word(function(number(expected), operand));
            if desired == expected {
                return Ok(number(expected));
            }
            let found = self.change(far, there, Change::Swap { expected, desired })?;
            if found == expected {
                return Ok(number(found));
            }
            expected = found;
        }
    }

    pub(super) fn compare_and_swap_far<T: Number + Integer>(
        &self,
        (far, there): FarNumber<'_>,
        compare: T,
        new: T,
    ) -> Result<T, Error> {
        let change = Change::Swap { expected: word(compare), desired: word(new) };
        self.change(far, there, change).map(number)
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
        let length = count * size_of::<T>();
        let lock = far.block.after(Block::stripe_offset(offset));
        self.take_lock(far, lock)?;
        reached(Step::AccumulateLocked);
        // SAFETY: the scratch is a stripe long, and nobody else's; the numbers lie in the part, as the callers have seen to.
        unsafe { self.move_registered(far, Way::Read, (base, key), offset, length) }?;
        // SAFETY: the device is done with the scratch, which is aligned to a page; any bytes are good for numbers.
        change(unsafe { NonNull::slice_from_raw_parts(base.cast(), count).as_mut() });
        // SAFETY: as above. What is short has left the scratch when it is put.
        unsafe {
            match length {
                ..=SLOT => self.copy_far(far, Way::Write, [(base, offset, length)]),
                _ => self.move_registered(far, Way::Write, (base, key), offset, length),
            }
        }?;
        reached(Step::AccumulateWritten);
        self.give_lock(far, lock)
    }

    /// Takes the lock at `lock` for this rank, from a dead holder if need be.
    fn take_lock(&self, far: &Far, lock: Remote) -> Result<(), Error> {
        let desired = u64::from(self.world.rank()) + 1;
        let mut expected = 0;
        loop {
            let found = self.change(far, lock, Change::Swap { expected, desired })?;
            if found == expected {
                return Ok(());
            }
            let holder = found.checked_sub(1).and_then(|rank| u32::try_from(rank).ok());
            let is_dead = holder.is_none_or(|rank| {
                rank >= self.world.size() || self.world.turn().gone(rank).is_some()
            });
            expected = if is_dead { found } else { 0 };
            // The holder may be waiting for what this rank has to do.
            self.world.poll()?;
            std::thread::yield_now();
        }
    }

    /// Gives the lock back, after what was written under it. It is not waited for.
    fn give_lock(&self, far: &Far, lock: Remote) -> Result<(), Error> {
        let change = Change::Swap { expected: u64::from(self.world.rank()) + 1, desired: 0 };
        self.ask(far, |lane, device| lane.change(device, change, lock)).map(drop)
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
