//! Reductions (MPI-5.0 §6.9 to §6.11).

use core::ffi::c_int;

use strait::raw::{RawBlocks, RawGroup as _};

use super::by_root::is_in_place;
use super::operator::{ALIGN, with_operator};
use super::vector::{Numbers, Vector};
use super::{CollectiveRefusal, CommMembers};
use crate::abi::Handle;
use crate::front::host::Pointer;

/// The arguments of a reduction: data, result, type and operation.
#[derive(Clone, Copy)]
pub(super) struct Reduced {
    pub(super) data: Pointer,
    pub(super) result: Pointer,
    pub(super) datatype: Handle,
    pub(super) op: Handle,
}

impl CommMembers<'_> {
    /// Returns a vector that is aligned for numbers.
    fn numbers(
        &self,
        base: Pointer,
        count: i64,
        datatype: Handle,
    ) -> Result<Vector, CollectiveRefusal> {
        let data = (base, count, datatype);
        self.vector(data)?.aligned(self.front, ALIGN, data)
    }

    /// Returns the elements that this process gives; `None` if they are in the result.
    ///
    /// # Safety
    ///
    /// They can be read.
    unsafe fn given(&self, args: Reduced, count: i64) -> Result<Option<Vector>, CollectiveRefusal> {
        if is_in_place(args.data) {
            return Ok(None);
        }
        // SAFETY: the caller guarantees it (contract of `given`).
        Ok(Some(unsafe { self.numbers(args.data, count, args.datatype)?.load() }))
    }

    /// Returns the place of the result, with its elements.
    ///
    /// # Safety
    ///
    /// They can be read.
    unsafe fn result(&self, args: Reduced, count: i64) -> Result<Vector, CollectiveRefusal> {
        // SAFETY: the caller guarantees it (contract of `result`).
        Ok(unsafe { self.numbers(args.result, count, args.datatype)?.load() })
    }
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Reduce`.
pub(super) unsafe fn reduce(
    members: &CommMembers<'_>,
    args: Reduced,
    count: i64,
    root: c_int,
) -> Result<(), CollectiveRefusal> {
    let (root, is_root) = members.root(root)?;
    // SAFETY: the program passes buffers of its elements. Only the root has a result.
    unsafe {
        let own = members.given(args, count)?;
        let part = own.as_ref().map(|own| own.part);
        let result = if is_root { Some(members.result(args, count)?) } else { None };
        let place = result.as_ref().map(|result| result.part);
        with_operator(members.front, (args.op, args.datatype), |op| {
            Ok(members.group.reduce_raw(part, place, op, root)?)
        })?;
        result.iter().for_each(|result| result.store());
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Allreduce`.
pub(super) unsafe fn allreduce(
    members: &CommMembers<'_>,
    args: Reduced,
    count: i64,
) -> Result<(), CollectiveRefusal> {
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let own = members.given(args, count)?;
        let part = own.as_ref().map(|own| own.part);
        let result = members.result(args, count)?;
        with_operator(members.front, (args.op, args.datatype), |op| {
            Ok(members.group.allreduce_raw(part, result.part, op)?)
        })?;
        result.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Scan`; or that of `MPI_Exscan` if it `is_exclusive`.
pub(super) unsafe fn scan(
    members: &CommMembers<'_>,
    args: Reduced,
    count: i64,
    is_exclusive: bool,
) -> Result<(), CollectiveRefusal> {
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let own = members.given(args, count)?;
        let part = own.as_ref().map(|own| own.part);
        let result = members.result(args, count)?;
        with_operator(members.front, (args.op, args.datatype), |op| {
            if is_exclusive {
                members.group.exscan_raw(part, result.part, op)?;
            } else {
                members.group.scan_raw(part, result.part, op)?;
            }
            Ok(())
        })?;
        // The first process has no result of an exclusive scan.
        if !is_exclusive || members.place() > 0 {
            result.store();
        }
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Reduce_scatter_block`.
pub(super) unsafe fn reduce_scatter(
    members: &CommMembers<'_>,
    args: Reduced,
    count: i64,
) -> Result<(), CollectiveRefusal> {
    let total = count.checked_mul(members.count() as i64).ok_or(CollectiveRefusal::Argument)?;
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let own = whole(members, args, total)?;
        let block = own.part.length / members.count();
        let result = members.result(args, count)?;
        with_operator(members.front, (args.op, args.datatype), |op| {
            let (own, blocks) = (Some(own.part), RawBlocks::Equal(block));
            Ok(members.group.reduce_scatter_raw(own, result.part, blocks, op)?)
        })?;
        result.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Reduce_scatter`.
pub(super) unsafe fn reduce_scatter_blocks(
    members: &CommMembers<'_>,
    args: Reduced,
    counts: Numbers,
) -> Result<(), CollectiveRefusal> {
    // SAFETY: the program passes buffers of its elements, and a number for each member.
    unsafe {
        let counts: Vec<i64> = (0..members.count()).map(|place| counts.at(place)).collect();
        let is_less = |count: &i64| *count < 0;
        if counts.iter().any(is_less) {
            return Err(CollectiveRefusal::Argument);
        }
        let total = counts.iter().try_fold(0_i64, |all, count| all.checked_add(*count));
        let total = total.ok_or(CollectiveRefusal::Argument)?;
        let own = whole(members, args, total)?;
        let result = members.result(args, counts[members.place()])?;
        let size = own.part.length / usize::try_from(total).unwrap_or(1).max(1);
        let mut end = 0;
        let ranges = counts.iter().map(|count| {
            let start = end;
            end += *count as usize * size;
            start..end
        });
        let ranges: Vec<_> = ranges.collect();
        with_operator(members.front, (args.op, args.datatype), |op| {
            let (own, blocks) = (Some(own.part), RawBlocks::Ranges(&ranges));
            Ok(members.group.reduce_scatter_raw(own, result.part, blocks, op)?)
        })?;
        result.store();
    }
    Ok(())
}

/// Returns the vector of which each process gets a block, which may be where the block will be.
///
/// # Safety
///
/// It can be read.
unsafe fn whole(
    members: &CommMembers<'_>,
    args: Reduced,
    count: i64,
) -> Result<Vector, CollectiveRefusal> {
    let base = if is_in_place(args.data) { args.result } else { args.data };
    // SAFETY: the caller guarantees it (contract of `whole`).
    unsafe {
        let whole = members.numbers(base, count, args.datatype)?.load();
        Ok(if is_in_place(args.data) { whole.copied() } else { whole })
    }
}
