//! Accumulates: what combines numbers in a part with numbers of the origin's, each atomically (MPI-4.1 §12.3.4).
//!
//! Where every part is mapped, by the processor's atomic instructions on the numbers. Where some are not, by the kernel's
//! copies under the locks of the part, a stretch at a time: fetch, combine, write back (`[OneSided04]` §3.3.1). Where the window
//! spans nodes, by the device, for every member ([`super::combine_far`]); long ones, and all where a device has no atomics, by the
//! target's handler ([`super::errand`]). In each case the operations of one origin come one after the other, as its program has
//! them.

use core::ptr::NonNull;

use strait_core::layout::Corrupt;
use strait_core::lmt::Direction;
use strait_core::progress::Cursor;
use strait_core::reduce::{Integer, Op};
use strait_core::rma::{Deed, Place, STRIPE, Shape};
use strait_core::sync::{Step, reached};

use super::part::{Part, Reach};
use super::{AtomicityDomain, Window, WindowDesign, WindowError};
use crate::endpoint::{part_of, part_of_mut};
use crate::{Error, Number, liveness, lock};

impl Window<'_> {
    /// Combines each number of the target's part with one of `data`: what is there is on the left.
    ///
    /// # Errors
    ///
    /// As [`Window::put`]; [`WindowError::Alignment`] when the numbers do not lie on multiples of their size,
    /// [`WindowError::Operation`] when `op` does not suit `T`.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.4, `MPI_ACCUMULATE`.
    #[inline]
    pub fn accumulate<T: Number>(
        &self,
        data: &[T],
        target: u32,
        displacement: usize,
        op: Op,
    ) -> Result<(), Error> {
        if let [operand] = *data
            && self.design == WindowDesign::Rdma
            && !self.handled
        {
            return self.fetch_and_op(operand, target, displacement, op).map(drop);
        }
        let shape = Shape::Contiguous { length: size_of_val(data) };
        self.accumulate_vectored(&[data], target, displacement, shape, op)
    }

    /// As [`Window::accumulate`], and gives what was there before.
    ///
    /// # Errors
    ///
    /// As [`Window::accumulate`]; [`WindowError::Lengths`] when `results` are not as many as `data`.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.4, `MPI_GET_ACCUMULATE`.
    pub fn get_accumulate<T: Number>(
        &self,
        data: &[T],
        results: &mut [T],
        target: u32,
        displacement: usize,
        op: Op,
    ) -> Result<(), Error> {
        let shape = Shape::Contiguous { length: size_of_val(data) };
        self.get_accumulate_vectored(&[data], results, target, displacement, shape, op)
    }

    /// As [`Window::accumulate`], of the concatenation of `data` and the numbers of `shape`, from a displacement on.
    ///
    /// # Errors
    ///
    /// As [`Window::accumulate`]; [`WindowError::Lengths`] when data and shape have different lengths.
    pub fn accumulate_vectored<T: Number>(
        &self,
        data: &[&[T]],
        target: u32,
        displacement: usize,
        shape: Shape<'_>,
        op: Op,
    ) -> Result<(), Error> {
        self.combine(data, None, target, displacement, shape, op)
    }

    /// As [`Window::get_accumulate`], of the concatenation of `data` and the numbers of `shape`, from a displacement on.
    ///
    /// # Errors
    ///
    /// As [`Window::get_accumulate`].
    pub fn get_accumulate_vectored<T: Number>(
        &self,
        data: &[&[T]],
        results: &mut [T],
        target: u32,
        displacement: usize,
        shape: Shape<'_>,
        op: Op,
    ) -> Result<(), Error> {
        self.combine(data, Some(results), target, displacement, shape, op)
    }

    /// Combines one number of the target's part with `operand`, and gives what was there before. With [`Op::NoOp`] it reads the
    /// number, with [`Op::Replace`] it swaps it.
    ///
    /// # Errors
    ///
    /// As [`Window::accumulate`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.4, `MPI_FETCH_AND_OP`.
    #[inline]
    pub fn fetch_and_op<T: Number>(
        &self,
        operand: T,
        target: u32,
        displacement: usize,
        op: Op,
    ) -> Result<T, Error> {
        let (part, offset) = self.locate_number::<T>(target, displacement)?;
        if let Some(place) = self.place::<T>(part, offset) {
            return place.fetch_and_op(op, operand).ok_or_else(|| undefined::<T>(op));
        }
        if let Some(number) = self.number::<T>(part, offset) {
            return self.fetch_and_op_far(number, op, operand);
        }
        if let Reach::Messages { place, .. } = part.reach.get() {
            let mut before = [T::zeroed()];
            T::function(op).ok_or_else(|| undefined::<T>(op))?;
            self.combine_records((place, offset), &[operand], Some(&mut before), op)?;
            return Ok(before[0]);
        }
        let function = T::function(op).ok_or_else(|| undefined::<T>(op))?;
        if self.is_only_handled(part) {
            return self.hand_over_one(part, offset, &[operand], Deed::Combine(op));
        }
        self.change_one(part, offset, |old| function(old, operand))
    }

    /// Writes `new` to one number of the target's part if it is `compare`, and gives what was there before.
    ///
    /// # Errors
    ///
    /// As [`Window::accumulate`].
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.3.4, `MPI_COMPARE_AND_SWAP`.
    #[inline]
    pub fn compare_and_swap<T: Number + Integer + PartialEq>(
        &self,
        compare: T,
        new: T,
        target: u32,
        displacement: usize,
    ) -> Result<T, Error> {
        let (part, offset) = self.locate_number::<T>(target, displacement)?;
        if let Some(place) = self.place::<T>(part, offset) {
            return Ok(place.compare_and_swap(compare, new));
        }
        if let Some(number) = self.number::<T>(part, offset) {
            return self.compare_and_swap_far(number, compare, new);
        }
        if let Reach::Messages { place, .. } = part.reach.get() {
            return self.swap_record((place, offset), compare, new);
        }
        if self.is_only_handled(part) {
            return self.hand_over_one(part, offset, &[compare, new], Deed::Swap);
        }
        self.change_one(part, offset, |old| if old == compare { new } else { old })
    }

    #[inline(always)]
    fn locate_number<T: Number>(
        &self,
        target: u32,
        displacement: usize,
    ) -> Result<(&Part, usize), Error> {
        let (part, offset) = self.locate(target, displacement, size_of::<T>())?;
        check_alignment::<T>(part, offset)?;
        Ok((part, offset))
    }

    /// Where a number lies that the processor can reach atomically; `None`: locks are this window's way.
    #[inline(always)]
    fn place<T: Number>(&self, part: &Part, offset: usize) -> Option<Place<T>> {
        match part.reach.get() {
            Reach::Mapped(base) if self.domain == AtomicityDomain::Processor => {
                // SAFETY: the number lies in the part and is aligned, which `locate` and `check_alignment` have seen to.
                Some(unsafe { Place::new(base.add(offset)) })
            }
            _ => None,
        }
    }

    fn combine<T: Number>(
        &self,
        data: &[&[T]],
        mut results: Option<&mut [T]>,
        target: u32,
        displacement: usize,
        shape: Shape<'_>,
        op: Op,
    ) -> Result<(), Error> {
        let function = T::function(op).ok_or_else(|| undefined::<T>(op))?;
        let buffers: Vec<_> =
            data.iter().map(|part| part_of(bytemuck::must_cast_slice(part))).collect();
        // SAFETY: `data` is borrowed.
        let origin = unsafe { Cursor::parts(&buffers) };
        let bytes = origin.remaining();
        let (part, offset) = self.locate_shape(target, displacement, &shape, bytes)?;
        if let Some(other) = results.as_deref().map(size_of_val).filter(|other| *other != bytes) {
            return Err(WindowError::Lengths { origin: bytes, other }.into());
        }
        for run in shape.runs() {
            check_alignment::<T>(part, offset + run.offset)?;
            check_alignment::<T>(part, offset + run.offset + run.length)?;
        }
        let mut done = 0;
        // Pieces are of whole numbers: the origin's buffers are slices of them, and so are the runs.
        shape.pieces(origin, |operands, within, length| {
            let count = length / size_of::<T>();
            // SAFETY: a piece of one of the origin's slices of numbers.
            let operands =
                unsafe { NonNull::slice_from_raw_parts(operands.cast(), count).as_ref() };
            let results = results.as_deref_mut().map(|results| &mut results[done..done + count]);
            done += count;
            self.combine_run(part, offset + within, operands, results, op, function)
        })
    }

    /// Combines consecutive numbers.
    fn combine_run<T: Number>(
        &self,
        part: &Part,
        offset: usize,
        operands: &[T],
        mut results: Option<&mut [T]>,
        op: Op,
        function: fn(T, T) -> T,
    ) -> Result<(), Error> {
        if self.place::<T>(part, offset).is_some() {
            for (number, operand) in operands.iter().enumerate() {
                let place = self.place::<T>(part, offset + number * size_of::<T>());
                let before = place.and_then(|place| place.fetch_and_op(op, *operand));
                if let (Some(results), Some(before)) = (&mut results, before) {
                    results[number] = before;
                }
            }
            return Ok(());
        }
        if self.number::<T>(part, offset).is_some() {
            for (number, operand) in operands.iter().enumerate() {
                let Some(there) = self.number::<T>(part, offset + number * size_of::<T>()) else {
                    continue;
                };
                let before = self.fetch_and_op_far(there, op, *operand)?;
                if let Some(results) = &mut results {
                    results[number] = before;
                }
            }
            return Ok(());
        }
        if let Reach::Messages { place, .. } = part.reach.get() {
            return self.combine_records((place, offset), operands, results, op);
        }
        let is_handed_over = self.is_handed_over(part, size_of_val(operands));
        let mut done = 0;
        while done < operands.len() {
            let at = offset + done * size_of::<T>();
            let stretch = (STRIPE - at % STRIPE) / size_of::<T>();
            let operands = &operands[done..operands.len().min(done + stretch)];
            let results = results.as_deref_mut().map(|all| &mut all[done..done + operands.len()]);
            done += operands.len();
            if is_handed_over {
                self.hand_over(part, at, operands, results, Deed::Combine(op))?;
                continue;
            }
            self.change_locked(part, at, operands.len(), |numbers: &mut [T]| {
                if let Some(results) = results {
                    results.copy_from_slice(numbers);
                }
                for (number, operand) in numbers.iter_mut().zip(operands) {
                    *number = function(*number, *operand);
                }
            })?;
        }
        Ok(())
    }

    /// Changes one number under its lock, and gives what was there before.
    fn change_one<T: Number>(
        &self,
        part: &Part,
        offset: usize,
        change: impl FnOnce(T) -> T,
    ) -> Result<T, Error> {
        let mut before = T::zeroed();
        self.change_locked(part, offset, 1, |number: &mut [T]| {
            before = number[0];
            number[0] = change(before);
        })?;
        Ok(before)
    }

    /// Fetches numbers that one lock stands for, has them changed, and writes them back, while no other accumulate does.
    fn change_locked<T: Number>(
        &self,
        part: &Part,
        offset: usize,
        count: usize,
        change: impl FnOnce(&mut [T]),
    ) -> Result<(), Error> {
        let Some(block) = self.block_for_locks(part) else {
            return self.change_locked_far(part, offset, count, change);
        };
        let mut numbers = vec![T::zeroed(); count];
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(&mut numbers));
        let segment = self.world.segment();
        let has_ended = |rank| match rank < segment.ranks() {
            true => Ok(liveness::has_ended(&segment.rank_block(rank).liveness)),
            false => Err(Corrupt::Holder { found: rank }),
        };
        let _guard = lock::acquire(block.stripe(offset), self.world.rank(), has_ended)?;
        reached(Step::AccumulateLocked);
        // SAFETY: the numbers lie in the part, as the callers have seen to; the buffer is ours.
        unsafe { self.copy(part, offset, Direction::Read, buffer.base, buffer.length) }?;
        change(&mut numbers);
        let buffer = part_of(bytemuck::must_cast_slice(&numbers));
        // SAFETY: as above.
        unsafe { self.copy(part, offset, Direction::Write, buffer.base, buffer.length) }?;
        reached(Step::AccumulateWritten);
        Ok(())
    }
}

/// Refuses a number that begins, or a run of them that ends, where none can.
#[inline(always)]
fn check_alignment<T: Number>(part: &Part, offset: usize) -> Result<(), WindowError> {
    let address = match part.reach.get() {
        Reach::Mapped(base) => base.addr().get() as u64,
        Reach::Process(address) | Reach::Device(address) | Reach::Messages { address, .. } => {
            address
        }
    };
    if address.wrapping_add(offset as u64).is_multiple_of(size_of::<T>() as u64) {
        return Ok(());
    }
    Err(WindowError::Alignment { offset, of: T::NAME })
}

#[cold]
fn undefined<T: Number>(op: Op) -> Error {
    WindowError::Operation { op, of: T::NAME }.into()
}
