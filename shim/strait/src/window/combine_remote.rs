//! Accumulates in a window that spans nodes, with atomics in all devices. The device carries out
//! all of them, also those to a member on this node and to this rank. The reason is that atomics of
//! the device and of the processor are not atomic with respect to each other (`[OneSided04]`
//! §3.3.1).

use core::ptr::NonNull;

use strait_core::buffer::Part as Buffer;
use strait_core::hca::RemoteAddress;
use strait_core::layout::Corrupt;
use strait_core::reduce::{Integer, Op};
use strait_core::rma::{
    AtomicOp, FetchUpdate, LockedResult, LockedUpdate, StepResult, WindowBlock, is_sum_of_words,
};

use super::Window;
use super::options::AtomicityDomain;
use super::part::{RemoteMember, WindowPart};
use super::words::{number, word};
use crate::{Error, Number, WindowError};

/// A number that the device can change: the member that owns it, and its address.
pub(super) type FarNumber<'a> = (&'a RemoteMember, RemoteAddress);

impl Window<'_> {
    /// Returns the address of a number that atomics of the device reach. `None`: this window does
    /// not use them, or not for such numbers.
    pub(super) fn number<'a, T>(
        &self,
        part: &'a WindowPart,
        offset: usize,
    ) -> Option<FarNumber<'a>> {
        let remote = part.remote.as_ref()?;
        let is_word = self.domain == AtomicityDomain::Device && size_of::<T>() == size_of::<u64>();
        is_word.then(|| (remote, remote.part.get().after(offset)))
    }

    /// Uses one fetch-and-add where that is enough. Otherwise repeats compare-and-swap until no
    /// other access comes in between.
    pub(super) fn fetch_and_op_remote<T: Number>(
        &self,
        (remote, there): FarNumber<'_>,
        op: Op,
        operand: T,
    ) -> Result<T, Error> {
        let function = T::function(op).ok_or(WindowError::Operation { op, of: T::NAME })?;
        if is_sum_of_words::<T>(op) {
            let change = AtomicOp::Add(word(operand));
            return self.exchange(remote, FetchUpdate::once(there, change)).map(number);
        }
        let change = |old| word(function(number(old), operand));
        self.exchange(remote, FetchUpdate::by(there, change)).map(number)
    }

    pub(super) fn compare_and_swap_remote<T: Number + Integer>(
        &self,
        (remote, there): FarNumber<'_>,
        compare: T,
        new: T,
    ) -> Result<T, Error> {
        let change = AtomicOp::Swap { expected: word(compare), desired: word(new) };
        self.exchange(remote, FetchUpdate::once(there, change)).map(number)
    }

    /// Changes a word by atomics of the device, and returns its previous value.
    fn exchange<F: FnMut(u64) -> u64>(
        &self,
        remote: &RemoteMember,
        mut exchange: FetchUpdate<F>,
    ) -> Result<u64, Error> {
        loop {
            let turn = self.ask(remote, |lane, device| exchange.step(lane, device))?;
            if let StepResult::Done(found) = turn {
                return Ok(found);
            }
        }
    }

    /// Returns the block that holds the locks of a part, where processors take them and this one
    /// reaches them.
    pub(super) const fn block_for_locks<'a>(
        &self,
        part: &'a WindowPart,
    ) -> Option<&'a WindowBlock> {
        match part.remote {
            Some(_) if !self.handled => None,
            _ => part.block.as_ref(),
        }
    }

    /// Fetches numbers that one lock covers, calls `change` on them and writes them back, while no
    /// other accumulate does.
    pub(super) fn change_locked_remote<T: Number>(
        &self,
        part: &WindowPart,
        offset: usize,
        count: usize,
        change: impl FnOnce(&mut [T]),
    ) -> Result<(), Error> {
        let Some((remote, beyond)) = part.remote.as_ref().zip(self.own.beyond.as_ref()) else {
            return Err(WindowError::OtherNode { rank: part.rank }.into());
        };
        let (base, key) = beyond.scratch();
        // Accumulates of one origin take effect in their order.
        self.await_active_messages(part)?;
        let here = Buffer { base, length: count * size_of::<T>() };
        let lock = remote.block.after(WindowBlock::stripe_offset(offset));
        let there = remote.part.get().after(offset);
        let mut locked = LockedUpdate::new(self.world.rank(), lock, here, key, there);
        let mut change = Some(change);
        loop {
            // SAFETY: the scratch is one stripe long and this call's alone. The callers have
            // checked that the numbers lie in the part.
            let turn = self.ask(remote, |lane, device| unsafe { locked.step(lane, device) });
            let turn = turn.inspect_err(|_| {
                // The device may still access the scratch.
                self.world.with_network(|network| network.break_lane(remote.lane));
            })?;
            match turn {
                StepResult::On => {}
                StepResult::Held(found) => {
                    if self.is_holder_gone(found)? {
                        locked.take_over(found);
                    }
                    // The holder may be waiting for progress of this rank.
                    self.world.poll()?;
                    std::thread::yield_now();
                }
                StepResult::Done(LockedResult::Fetched) => {
                    // SAFETY: the device is done with the scratch, which is aligned to a page. Any
                    // bytes are valid for numbers.
                    let numbers =
                        unsafe { NonNull::slice_from_raw_parts(base.cast(), count).as_mut() };
                    change.take().into_iter().for_each(|change| change(numbers));
                }
                StepResult::Done(LockedResult::Asked) => return Ok(()),
            }
        }
    }

    /// Returns whether the rank that a lock word names has died or left.
    fn is_holder_gone(&self, found: u64) -> Result<bool, Error> {
        // The word was 0, so the lock is free.
        let Some(name) = found.checked_sub(1) else { return Ok(true) };
        match u32::try_from(name) {
            Ok(rank) if rank < self.world.size() => {
                self.world.watch_over(rank);
                Ok(self.world.lock_progress().gone(rank).is_some())
            }
            _ => Err(Corrupt::Holder { found: u32::try_from(name).unwrap_or(u32::MAX) }.into()),
        }
    }
}
