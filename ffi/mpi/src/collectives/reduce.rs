//! Reductions (MPI-5.0 §6.9 to §6.11).

use core::ffi::c_int;

use strait::Error;
use strait::raw::{Operator, Part, RawBlocks, RawGroup as _};

use super::arguments::is_in_place;
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

    /// Returns the place of the result, with its elements if they are this process's own.
    ///
    /// # Safety
    ///
    /// They can be read.
    unsafe fn result(&self, args: Reduced, count: i64) -> Result<Vector, CollectiveRefusal> {
        let result = self.numbers(args.result, count, args.datatype)?;
        // SAFETY: the caller guarantees it (contract of `result`).
        Ok(if is_in_place(args.data) { unsafe { result.load() } } else { result })
    }

    /// Combines the elements of all members by `act`, which gets the operation, this process's own
    /// elements if they are not in the result, and the result. Returns the result.
    ///
    /// # Safety
    ///
    /// The elements can be read.
    unsafe fn combine(
        &self,
        args: Reduced,
        count: i64,
        act: impl Fn(&dyn Operator, Option<Part>, Part) -> Result<(), Error>,
    ) -> Result<Vector, CollectiveRefusal> {
        let args = self.separate(args, count)?;
        // SAFETY: the caller guarantees it (contract of `combine`).
        let (own, result) = unsafe { (self.given(args, count)?, self.result(args, count)?) };
        let part = own.as_ref().map(|own| own.part);
        with_operator(self.front, (args.op, args.datatype), |op| Ok(act(op, part, result.part)?))?;
        Ok(result)
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
    let args = if is_root { members.separate(args, count)? } else { args };
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
    let group = members.group;
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let combine = |op: &dyn Operator, own, result| group.allreduce_raw(own, result, op);
        members.combine(args, count, combine)?.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Scan`.
pub(super) unsafe fn scan(
    members: &CommMembers<'_>,
    args: Reduced,
    count: i64,
) -> Result<(), CollectiveRefusal> {
    let group = members.group;
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let combine = |op: &dyn Operator, own, result| group.scan_raw(own, result, op);
        members.combine(args, count, combine)?.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Exscan`.
pub(super) unsafe fn exscan(
    members: &CommMembers<'_>,
    args: Reduced,
    count: i64,
) -> Result<(), CollectiveRefusal> {
    let group = members.group;
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let combine = |op: &dyn Operator, own, result| group.exscan_raw(own, result, op);
        let result = members.combine(args, count, combine)?;
        // The first process has no result.
        if members.place() > 0 {
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
    let args = members.separate(args, count)?;
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let own = whole(members, args, total)?;
        let blocks = RawBlocks::Equal(own.part.length / members.count());
        give_blocks(members, args, &own, blocks, count)
    }
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
        let args = members.separate(args, total)?;
        let own = whole(members, args, total)?;
        let size = own.part.length / usize::try_from(total).unwrap_or(1).max(1);
        let mut end = 0;
        let ranges = counts.iter().map(|count| {
            let start = end;
            end += *count as usize * size;
            start..end
        });
        let ranges: Vec<_> = ranges.collect();
        give_blocks(members, args, &own, RawBlocks::Ranges(&ranges), counts[members.place()])
    }
}

/// Combines the vectors of all members, and gives this one its block of `count` elements.
///
/// # Safety
///
/// The program guarantees the contract of `MPI_Reduce_scatter`.
unsafe fn give_blocks(
    members: &CommMembers<'_>,
    args: Reduced,
    own: &Vector,
    blocks: RawBlocks<'_>,
    count: i64,
) -> Result<(), CollectiveRefusal> {
    let result = members.numbers(args.result, count, args.datatype)?;
    // SAFETY: the caller guarantees it (contract of `give_blocks`).
    unsafe {
        with_operator(members.front, (args.op, args.datatype), |op| {
            Ok(members.group.reduce_scatter_raw(Some(own.part), result.part, blocks, op)?)
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
