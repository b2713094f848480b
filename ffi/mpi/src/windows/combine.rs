//! Combining numbers of a target with numbers of the origin.

use core::ffi::c_int;

use strait::bytemuck;
use strait::{Number, Op};

use super::basic::{BasicType, Kind, by_kind};
use super::ops::PredefinedOp;
use super::refusal::WindowRefusal;
use super::table::Win;
use super::target::TargetPlace;
use super::transfer::shape;
use crate::abi::{self, Handle};
use crate::front::combine_packed::combine_packed;
use crate::front::state::Front;

/// An accumulate, with an origin that has no gaps.
pub(crate) struct Combination<'a> {
    pub(crate) operation: PredefinedOp,
    pub(crate) op: Handle,
    pub(crate) basic: BasicType,
    /// As long as `there`, or unused: the operation changes nothing.
    pub(crate) data: &'a [u8],
    pub(crate) results: Option<&'a mut [u8]>,
    pub(crate) there: &'a TargetPlace,
}

impl Combination<'_> {
    /// Carries it out, atomically for each element.
    pub(crate) fn perform(&mut self, front: &Front, win: &Win) -> Result<(), WindowRefusal> {
        let kind = self.basic.kind;
        let PredefinedOp::Known(op) = self.operation else { return self.under_lock(front, win) };
        match by_kind!(kind, by_numbers(self, win, op), return self.under_lock(front, win)) {
            // The host's own types allow any address.
            Err(refusal) if refusal.is_of_alignment() => self.under_lock(front, win),
            done => done,
        }
    }

    /// Fetches the elements, lets the host combine them, and writes them back, while no other
    /// accumulate of this kind changes memory of the target.
    #[inline(never)]
    fn under_lock(&mut self, front: &Front, win: &Win) -> Result<(), WindowRefusal> {
        let there = self.there;
        let rank = win.window.group().ranks()[there.target as usize];
        let flat = front.types.find(self.basic.handle)?;
        // An access to a target that has not been locked yet waits here, without the lock.
        let mut found = vec![0_u8; there.bytes];
        read(win, there, &mut found)?;
        let _guard = front.accumulate_locks.lock(rank)?;
        read(win, there, &mut found)?;
        if let Some(results) = &mut self.results {
            results.copy_from_slice(&found);
        }
        match self.operation {
            PredefinedOp::Known(Op::NoOp) => return Ok(()),
            PredefinedOp::Known(Op::Replace) => found.copy_from_slice(self.data),
            _ => {
                c_int::try_from(found.len() / flat.size.max(1))
                    .map_err(|_| WindowRefusal::Class(abi::ERR_COUNT))?;
                let data = &mut self.data.to_vec();
                match combine_packed(&flat, self.basic.handle, self.op, data, &mut found) {
                    0 => {}
                    code => return Err(WindowRefusal::Reported(code)),
                }
            }
        }
        write(win, there, &found)
    }
}

fn read(win: &Win, there: &TargetPlace, bytes: &mut [u8]) -> Result<(), WindowRefusal> {
    if there.runs.is_none() {
        return Ok(win.window.get(bytes, there.target, there.at)?);
    }
    let buffers = &mut [std::io::IoSliceMut::new(bytes)];
    Ok(win.window.get_vectored(buffers, there.target, there.at, shape(there))?)
}

fn write(win: &Win, there: &TargetPlace, bytes: &[u8]) -> Result<(), WindowRefusal> {
    if there.runs.is_none() {
        return Ok(win.window.put(bytes, there.target, there.at)?);
    }
    let data = &[std::io::IoSlice::new(bytes)];
    Ok(win.window.put_vectored(data, there.target, there.at, shape(there))?)
}

/// Returns numbers that lie at an odd address.
fn unaligned<T: Number>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// Combines numbers that Strait knows.
fn by_numbers<T: Number>(
    combination: &mut Combination<'_>,
    win: &Win,
    op: Op,
) -> Result<(), WindowRefusal> {
    let there = combination.there;
    if !there.bytes.is_multiple_of(size_of::<T>()) {
        return Err(WindowRefusal::Class(abi::ERR_TYPE));
    }
    let copy: Vec<T>;
    let data: &[T] = match bytemuck::try_cast_slice(combination.data) {
        Ok(data) if op != Op::NoOp => data,
        _ => {
            copy = match op {
                Op::NoOp => vec![T::zeroed(); there.bytes / size_of::<T>()],
                _ => unaligned(combination.data),
            };
            &copy
        }
    };
    let Some(bytes) = combination.results.as_deref_mut() else {
        return change(win, data, None, there, op);
    };
    if let Ok(results) = bytemuck::try_cast_slice_mut(bytes) {
        return change(win, data, Some(results), there, op);
    }
    let mut results = vec![T::zeroed(); there.bytes / size_of::<T>()];
    change(win, data, Some(&mut results), there, op)?;
    bytes.copy_from_slice(bytemuck::must_cast_slice(&results));
    Ok(())
}

fn change<T: Number>(
    win: &Win,
    data: &[T],
    results: Option<&mut [T]>,
    there: &TargetPlace,
    op: Op,
) -> Result<(), WindowRefusal> {
    let (window, target, at) = (&win.window, there.target, there.at);
    Ok(match (results, &there.runs) {
        (None, None) => window.accumulate(data, target, at, op),
        (None, Some(_)) => window.accumulate_vectored(&[data], target, at, shape(there), op),
        (Some(results), None) => window.get_accumulate(data, results, target, at, op),
        (Some(results), Some(_)) => {
            window.get_accumulate_vectored(&[data], results, target, at, shape(there), op)
        }
    }?)
}
