//! Accumulates on mapped parts: which take the lock of a stripe, and which do not.
//!
//! Few numbers are changed by the processor's atomic instructions, many by plain arithmetic under
//! the lock of their stripe. [`StripeBias`] keeps the two apart: after the first long accumulate on
//! a stripe all accumulates on it take the lock, also those of one number.

use core::ptr::NonNull;

use strait_core::layout::{Call, Corrupt, Wait};
use strait_core::reduce::Op;
use strait_core::rma::{STRIPE, StripeBias, WindowBlock, combine_plain};
use strait_core::sync::{Step, reached};
use strait_platform::lock::Guard;
use strait_platform::record::WaitRecorder;
use strait_platform::{liveness, lock};

use super::Window;
use super::part::WindowPart;
use crate::{Error, Number, WindowDesign};

/// Smallest number of consecutive numbers for which a stripe is revoked. So many atomic
/// instructions take three times as long as a lock and plain arithmetic.
const LONG: usize = 32;

impl Window<'_> {
    /// Prepares a change of one number of a mapped part by an atomic instruction. The change takes
    /// place before the returned guard is dropped.
    #[inline(always)]
    pub(super) fn enter_stripe<'a>(
        &self,
        part: &'a WindowPart,
        offset: usize,
    ) -> Result<Option<Guard<'a>>, Error> {
        if is_biased(part, offset) {
            return Ok(None);
        }
        self.enter_revoked(part, offset)
    }

    /// Makes this member biased to the stripe. If that is revoked, takes its lock.
    #[inline(never)]
    fn enter_revoked<'a>(
        &self,
        part: &'a WindowPart,
        offset: usize,
    ) -> Result<Option<Guard<'a>>, Error> {
        let Some(block) = &part.block else { return Ok(None) };
        let stripe = StripeBias::stripe(offset);
        part.biased.set(block.bias().acquire(self.group.place(), part.biased.get(), stripe));
        if part.biased.get() & stripe != 0 {
            return Ok(None);
        }
        self.lock_stripe(block, offset).map(Some)
    }

    /// Combines consecutive numbers of a part that is mapped at `base`.
    pub(super) fn combine_mapped<T: Number>(
        &self,
        (part, base): (&WindowPart, NonNull<u8>),
        offset: usize,
        mut operands: &[T],
        mut results: Option<&mut [T]>,
        op: Op,
    ) -> Result<(), Error> {
        let mut at = offset;
        while !operands.is_empty() {
            let count = numbers_in_stripe::<T>(at).min(operands.len());
            let (now, later) = operands.split_at(count);
            let (results_now, results_later) = match results {
                Some(results) => {
                    let (now, later) = results.split_at_mut(count);
                    (Some(now), Some(later))
                }
                None => (None, None),
            };
            self.combine_in_stripe((part, base), at, now, results_now, op)?;
            (operands, results, at) = (later, results_later, at + count * size_of::<T>());
        }
        Ok(())
    }

    /// Combines consecutive numbers that lie in one stripe.
    fn combine_in_stripe<T: Number>(
        &self,
        (part, base): (&WindowPart, NonNull<u8>),
        offset: usize,
        operands: &[T],
        results: Option<&mut [T]>,
        op: Op,
    ) -> Result<(), Error> {
        let is_long = operands.len() >= LONG && self.design == WindowDesign::Rdma;
        let Some(block) = part.block.as_ref().filter(|_| is_long || !is_biased(part, offset))
        else {
            self.combine_by_atomics(part, offset, operands, results, op);
            return Ok(());
        };
        let (bias, place) = (block.bias(), self.group.place());
        let stripe = StripeBias::stripe(offset);
        part.biased.set(if is_long {
            bias.revoke(place, part.biased.get(), stripe)
        } else {
            bias.acquire(place, part.biased.get(), stripe)
        });
        if part.biased.get() & stripe != 0 {
            self.combine_by_atomics(part, offset, operands, results, op);
            return Ok(());
        }
        let _guard = self.lock_stripe(block, offset)?;
        if bias.is_settled(stripe, |place| self.loss_of(place).is_some()) {
            // SAFETY: the callers have checked that the numbers lie in the part and are aligned.
            // All accumulates on the stripe take its lock, which this member holds.
            unsafe { combine_plain(base.add(offset), operands, results, op) };
        } else {
            self.combine_by_atomics(part, offset, operands, results, op);
        }
        reached(Step::AccumulateWritten);
        Ok(())
    }

    /// Combines consecutive numbers, each by atomic instructions.
    fn combine_by_atomics<T: Number>(
        &self,
        part: &WindowPart,
        offset: usize,
        operands: &[T],
        mut results: Option<&mut [T]>,
        op: Op,
    ) {
        for (number, operand) in operands.iter().enumerate() {
            let place = self.place::<T>(part, offset + number * size_of::<T>());
            let before = place.and_then(|place| place.fetch_and_op(op, *operand));
            if let (Some(results), Some(before)) = (&mut results, before) {
                results[number] = before;
            }
        }
    }

    /// Takes the lock of the stripe of the byte at `offset`, also from a dead holder.
    #[inline(always)]
    pub(super) fn lock_stripe<'a>(
        &self,
        block: &'a WindowBlock,
        offset: usize,
    ) -> Result<Guard<'a>, Error> {
        match self.try_lock_stripe(block, offset) {
            Some(guard) => Ok(guard),
            None => self.await_stripe(block, offset),
        }
    }

    /// Takes the lock of the stripe of the byte at `offset`, if it is free.
    #[inline(always)]
    pub(super) fn try_lock_stripe<'a>(
        &self,
        block: &'a WindowBlock,
        offset: usize,
    ) -> Option<Guard<'a>> {
        let guard = lock::try_acquire(block.stripe(offset), self.world.rank())?;
        reached(Step::AccumulateLocked);
        Some(guard)
    }

    #[inline(never)]
    fn await_stripe<'a>(&self, block: &'a WindowBlock, offset: usize) -> Result<Guard<'a>, Error> {
        let segment = self.world.segment();
        let mut record = WaitRecorder::new(self.world.record_place());
        let has_ended = |rank| {
            if rank >= segment.ranks() {
                return Err(Corrupt::Holder { found: rank });
            }
            record.renew_alone(Wait::on(Call::Accumulate, rank));
            Ok(liveness::has_ended(&segment.rank_block(rank).liveness))
        };
        let guard = lock::acquire(block.stripe(offset), self.world.rank(), has_ended)?;
        reached(Step::AccumulateLocked);
        Ok(guard)
    }

    /// Lets other members use plain arithmetic on the stripes that they have revoked, although this
    /// member makes no more accumulates there.
    pub(super) fn give_up_bias(&self) {
        for part in self.parts.iter().filter(|part| part.biased.get() != 0) {
            if let Some(block) = &part.block {
                part.biased.set(block.bias().give_up(self.group.place(), part.biased.get()));
            }
        }
    }
}

/// Returns whether all members take the lock for the number at `offset`, this one included: it is
/// not biased to the stripe any more.
#[inline(always)]
pub(super) fn takes_lock(part: &WindowPart, block: &WindowBlock, offset: usize) -> bool {
    let stripe = StripeBias::stripe(offset);
    part.biased.get() & stripe == 0 && block.bias().is_revoked(stripe)
}

/// Returns whether this member may change the number at `offset` by an atomic instruction without
/// the lock.
#[inline(always)]
pub(super) fn is_biased(part: &WindowPart, offset: usize) -> bool {
    let stripe = StripeBias::stripe(offset);
    let is_revoked = |block: &WindowBlock| block.bias().is_revoked(stripe);
    part.biased.get() & stripe != 0 && !part.block.as_ref().is_some_and(is_revoked)
}

/// Returns how many consecutive numbers from the one at `offset` on are under its lock. A number on
/// the border of two stripes is under the lock of its first byte.
pub(super) const fn numbers_in_stripe<T>(offset: usize) -> usize {
    (STRIPE - offset % STRIPE).div_ceil(size_of::<T>())
}
