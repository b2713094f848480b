//! Accumulates combine numbers of a part with numbers of the origin, each atomically (MPI-4.1
//! §12.3.4).
//!
//! The means depends on the window:
//! - Where every part is mapped, the processor's atomic instructions change the numbers. Long
//!   accumulates use plain arithmetic under the locks of the part ([`super::stripes`]).
//! - Where some parts are not, the kernel copies under the locks of the part, one stripe at a time:
//!   fetch, combine, write back (`[OneSided04]` §3.3.1).
//! - Where the window spans nodes, the device changes the numbers, for every member
//!   ([`super::combine_remote`]).
//! - The target's handler carries out long ones, and all where a device has no atomics
//!   ([`super::am`]).
//!
//! In each case, the operations of one origin take effect in program order.

use core::ptr::NonNull;

use strait_core::buffer::{Cursor, Direction};
use strait_core::reduce::{Integer, Op};
use strait_core::rma::{AmOperation, Shape, SharedNumber};
use strait_core::sync::{Step, reached};

use super::Window;
use super::options::AtomicityDomain;
use super::part::{PartAccess, WindowPart};
use super::stripes::numbers_in_stripe;
use crate::buffer::{part_of, part_of_mut};
use crate::{Error, Number, WindowDesign, WindowError};

impl Window<'_> {
    /// Combines each number of the target's part with a number of `data`. The number of the part is
    /// the left operand.
    ///
    /// ```
    /// # use strait::{Assert, Window, Op};
    /// # strait::World::run_in_process(4, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.accumulate(&[1_u64, 10], 0, 0, Op::Sum)?;
    /// window.fence(Assert::NONE)?;
    /// let mut sums = [0_u64; 2];
    /// window.get(&mut sums, 0, 0)?;
    /// assert_eq!(sums, [4, 40]);
    /// window.fence(Assert::NONE)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::put`] does; [`WindowError::Alignment`] when the numbers do not lie on
    /// multiples of their size, [`WindowError::Operation`] when `op` is not defined for `T`.
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
        if let [operand] = *data {
            if op == Op::Sum && self.add_at_once(operand, target, displacement).is_some() {
                return Ok(());
            }
            if self.design == WindowDesign::Rdma && self.domain != AtomicityDomain::Locks {
                return self.fetch_and_op(operand, target, displacement, op).map(drop);
            }
        }
        self.combine_contiguous(data, None, target, displacement, op)
    }

    /// Accumulates as [`Window::accumulate`] does, and stores the previous numbers in `results`.
    ///
    /// ```
    /// # use strait::{Assert, Window, Op};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// window.put(&[1_u64, 2], 0, 0)?;
    /// let mut before = [0_u64; 2];
    /// window.get_accumulate(&[10, 10], &mut before, 0, 0, Op::Sum)?;
    /// assert_eq!(before, [1, 2]);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::accumulate`] does; [`WindowError::Lengths`] when `results` and `data`
    /// have different lengths.
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
        self.combine_contiguous(data, Some(results), target, displacement, op)
    }

    /// Accumulates the concatenation of `data` to the numbers of `shape`, which starts at a
    /// displacement.
    ///
    /// ```
    /// # use strait::{Assert, Window, ByteRun, Op, Shape};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// // Every other number of 8 bytes.
    /// let runs = [ByteRun { offset: 0, length: 8 }, ByteRun { offset: 16, length: 8 }];
    /// window.accumulate_vectored(&[&[1_u64], &[2]], 0, 0, Shape::Runs(&runs), Op::Sum)?;
    /// assert_eq!(window.local().load::<u64>(16)?, 2);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::accumulate`] does; [`WindowError::Lengths`] when `data` and `shape` have
    /// different lengths.
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

    /// Accumulates the concatenation of `data` to the numbers of `shape`, which starts at a
    /// displacement. Stores the previous numbers in `results`.
    ///
    /// ```
    /// # use strait::{Assert, Window, ByteRun, Op, Shape};
    /// # strait::World::run_in_process(1, |world| {
    /// let window = Window::builder(world.endpoint()).allocate(64)?;
    /// window.put(&[5_u64, 6, 7], 0, 0)?;
    /// let runs = [ByteRun { offset: 0, length: 8 }, ByteRun { offset: 16, length: 8 }];
    /// let (shape, mut before) = (Shape::Runs(&runs), [0_u64; 2]);
    /// window.get_accumulate_vectored(&[&[1, 1]], &mut before, 0, 0, shape, Op::Sum)?;
    /// assert_eq!(before, [5, 7]);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::get_accumulate`] does.
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

    /// Combines one number of the target's part with `operand`, and returns its previous value.
    /// [`Op::NoOp`] reads the number; [`Op::Replace`] swaps it.
    ///
    /// ```
    /// # use strait::{Assert, Window, Op};
    /// # strait::World::run_in_process(4, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// let ticket: u64 = window.fetch_and_op(1, 0, 0, Op::Sum)?;
    /// assert!(ticket < 4, "each rank has another ticket");
    /// window.fence(Assert::NONE)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::accumulate`] does.
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
            let _guard = self.enter_stripe(part, offset)?;
            return place.fetch_and_op(op, operand).ok_or_else(|| undefined::<T>(op));
        }
        if let Some(number) = self.number::<T>(part, offset) {
            return self.fetch_and_op_remote(number, op, operand);
        }
        if let PartAccess::Messages { place, .. } = part.reach.get() {
            let mut before = [T::zeroed()];
            T::function(op).ok_or_else(|| undefined::<T>(op))?;
            self.combine_records((place, offset), &[operand], Some(&mut before), op)?;
            return Ok(before[0]);
        }
        let function = T::function(op).ok_or_else(|| undefined::<T>(op))?;
        if self.is_only_handled(part) {
            return self.send_one_active_message(
                part,
                offset,
                &[operand],
                AmOperation::Combine(op),
            );
        }
        self.change_one(part, offset, |old| function(old, operand))
    }

    /// Writes `new` to one number of the target's part if it equals `compare`, and returns its
    /// previous value.
    ///
    /// ```
    /// # use strait::{Assert, Window};
    /// # strait::World::run_in_process(4, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// let found = window.compare_and_swap(0_u64, 1 + u64::from(world.rank()), 0, 0)?;
    /// let won = found == 0;
    /// println!("rank {} {}", world.rank(), if won { "is first" } else { "is late" });
    /// window.fence(Assert::NONE)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`Window::accumulate`] does.
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
            let _guard = self.enter_stripe(part, offset)?;
            return Ok(place.compare_and_swap(compare, new));
        }
        if let Some(number) = self.number::<T>(part, offset) {
            return self.compare_and_swap_remote(number, compare, new);
        }
        if let PartAccess::Messages { place, .. } = part.reach.get() {
            return self.swap_record((place, offset), compare, new);
        }
        if self.is_only_handled(part) {
            return self.send_one_active_message(part, offset, &[compare, new], AmOperation::Swap);
        }
        self.change_one(part, offset, |old| if old == compare { new } else { old })
    }

    #[inline(always)]
    fn locate_number<T: Number>(
        &self,
        target: u32,
        displacement: usize,
    ) -> Result<(&WindowPart, usize), Error> {
        let (part, offset) = self.locate(target, displacement, size_of::<T>())?;
        check_alignment::<T>(part, offset)?;
        if let PartAccess::Attachments(_) = part.reach.get() {
            // A part of the number lies in another attachment.
            return Err(WindowError::Alignment { offset, of: T::NAME }.into());
        }
        Ok((part, offset))
    }

    /// Returns a number that the processor can access atomically. `None`: this window uses locks.
    #[inline(always)]
    pub(super) fn place<T: Number>(
        &self,
        part: &WindowPart,
        offset: usize,
    ) -> Option<SharedNumber<T>> {
        match part.reach.get() {
            PartAccess::Mapped(base) if self.domain == AtomicityDomain::Processor => {
                // SAFETY: `locate` and `check_alignment` have checked that the number lies in the
                // part and is aligned.
                Some(unsafe { SharedNumber::new(base.add(offset)) })
            }
            _ => None,
        }
    }

    fn combine_contiguous<T: Number>(
        &self,
        data: &[T],
        results: Option<&mut [T]>,
        target: u32,
        displacement: usize,
        op: Op,
    ) -> Result<(), Error> {
        let function = T::function(op).ok_or_else(|| undefined::<T>(op))?;
        let bytes = size_of_val(data);
        let (part, offset) = self.locate(target, displacement, bytes)?;
        if let Some(other) = results.as_deref().map(size_of_val).filter(|other| *other != bytes) {
            return Err(WindowError::Lengths { origin: bytes, other }.into());
        }
        check_alignment::<T>(part, offset)?;
        self.combine_run(part, offset, data, results, op, function)
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
        // SAFETY: `data` is borrowed for the whole call.
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
        // Pieces hold whole numbers: the origin's buffers are slices of numbers, and the runs are
        // aligned.
        shape.pieces(origin, |operands, within, length| {
            let count = length / size_of::<T>();
            // SAFETY: the piece lies in one of the origin's slices of numbers, which are borrowed.
            let operands =
                unsafe { NonNull::slice_from_raw_parts(operands.cast(), count).as_ref() };
            let results = results.as_deref_mut().map(|results| &mut results[done..done + count]);
            done += count;
            self.combine_run(part, offset + within, operands, results, op, function)
        })
    }

    /// Combines consecutive numbers.
    pub(super) fn combine_run<T: Number>(
        &self,
        part: &WindowPart,
        offset: usize,
        operands: &[T],
        mut results: Option<&mut [T]>,
        op: Op,
        function: fn(T, T) -> T,
    ) -> Result<(), Error> {
        if let PartAccess::Mapped(base) = part.reach.get()
            && self.domain == AtomicityDomain::Processor
        {
            return self.combine_mapped((part, base), offset, operands, results, op);
        }
        if let PartAccess::Attachments(_) = part.reach.get() {
            return self.combine_in_run((part, offset), operands, results, op, function);
        }
        if self.number::<T>(part, offset).is_some() {
            for (number, operand) in operands.iter().enumerate() {
                let Some(there) = self.number::<T>(part, offset + number * size_of::<T>()) else {
                    continue;
                };
                let before = self.fetch_and_op_remote(there, op, *operand)?;
                if let Some(results) = &mut results {
                    results[number] = before;
                }
            }
            return Ok(());
        }
        if let PartAccess::Messages { place, .. } = part.reach.get() {
            return self.combine_records((place, offset), operands, results, op);
        }
        let is_handed_over = self.uses_active_message(part, size_of_val(operands));
        let mut done = 0;
        while done < operands.len() {
            let at = offset + done * size_of::<T>();
            let operands = &operands[done..operands.len().min(done + numbers_in_stripe::<T>(at))];
            let results = results.as_deref_mut().map(|all| &mut all[done..done + operands.len()]);
            done += operands.len();
            if results.is_none() && !is_handed_over && self.gather(part, at, operands, op)? {
                continue;
            }
            if is_handed_over {
                self.send_active_messages(part, at, operands, results, AmOperation::Combine(op))?;
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

    /// Changes one number under its lock, and returns its previous value.
    fn change_one<T: Number>(
        &self,
        part: &WindowPart,
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

    /// Fetches numbers that one lock covers, calls `change` on them and writes them back, while no
    /// other accumulate does.
    fn change_locked<T: Number>(
        &self,
        part: &WindowPart,
        offset: usize,
        count: usize,
        change: impl FnOnce(&mut [T]),
    ) -> Result<(), Error> {
        let Some(block) = self.block_for_locks(part) else {
            return self.change_locked_remote(part, offset, count, change);
        };
        let mut numbers = vec![T::zeroed(); count];
        let buffer = part_of_mut(bytemuck::must_cast_slice_mut(&mut numbers));
        let _guard = self.lock_stripe(block, offset)?;
        // SAFETY: the callers have checked that the numbers lie in the part. The buffer is a local
        // vector of that length.
        unsafe { self.copy(part, offset, Direction::Read, buffer.base, buffer.length) }?;
        change(&mut numbers);
        let buffer = part_of(bytemuck::must_cast_slice(&numbers));
        // SAFETY: the numbers lie in the part, and the buffer is the same local vector.
        unsafe { self.copy(part, offset, Direction::Write, buffer.base, buffer.length) }?;
        reached(Step::AccumulateWritten);
        Ok(())
    }
}

/// Refuses a number, or the end of a run of numbers, at an address that is not a multiple of its
/// size.
#[inline(always)]
pub(super) fn check_alignment<T: Number>(
    part: &WindowPart,
    offset: usize,
) -> Result<(), WindowError> {
    let address = match part.reach.get() {
        PartAccess::Mapped(base) => base.addr().get() as u64,
        PartAccess::Process(address)
        | PartAccess::Device(address)
        | PartAccess::Messages { address, .. }
        | PartAccess::Attachments(address) => address,
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
