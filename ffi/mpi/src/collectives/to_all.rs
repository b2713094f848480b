//! Gathers to all, and exchanges of all with all (MPI-5.0 §6.7, §6.8).

use strait::raw::{RawBlocks, RawGroup as _};

use super::by_root::{Data, DataBlocks, is_in_place};
use super::vector::{MemberBlocks, Numbers};
use super::{CollectiveRefusal, CommMembers};
use crate::front::host::{HandlePtr, Pointer};

/// Blocks of a call with a type for each.
pub(super) type TypedBlocks = (Pointer, (Numbers, Numbers), HandlePtr);

/// # Safety
///
/// The program guarantees the contract of `MPI_Allgather`.
pub(super) unsafe fn allgather(
    members: &CommMembers<'_>,
    own: Data,
    all: Data,
) -> Result<(), CollectiveRefusal> {
    let mut vector = members.vector_of_all(all)?;
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let own = if is_in_place(own.0) {
            vector = vector.load();
            None
        } else {
            Some(members.vector(own)?.load())
        };
        let blocks = RawBlocks::Equal(vector.part.length / members.count());
        let part = own.as_ref().map(|own| own.part);
        members.group.allgather_raw(part, vector.part, blocks)?;
        vector.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Allgatherv`.
pub(super) unsafe fn allgather_blocks(
    members: &CommMembers<'_>,
    own: Data,
    all: DataBlocks,
) -> Result<(), CollectiveRefusal> {
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let mut all = members.blocks(all)?;
        let own = if is_in_place(own.0) {
            all = all.load();
            None
        } else {
            Some(members.vector(own)?.load())
        };
        let part = own.as_ref().map(|own| own.part);
        members.group.allgather_raw(part, all.vector.part, RawBlocks::Ranges(&all.ranges))?;
        all.vector.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Alltoall`.
pub(super) unsafe fn alltoall(
    members: &CommMembers<'_>,
    out: Data,
    into: Data,
) -> Result<(), CollectiveRefusal> {
    let count = members.count();
    let mut into = members.vector_of_all(into)?;
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let out = if is_in_place(out.0) {
            into = into.load();
            None
        } else {
            Some(members.vector_of_all(out)?.load())
        };
        let from = out.as_ref().map(|out| (out.part, RawBlocks::Equal(out.part.length / count)));
        let blocks = RawBlocks::Equal(into.part.length / count);
        members.group.alltoall_raw(from, into.part, blocks)?;
        into.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Alltoallv`.
pub(super) unsafe fn alltoall_blocks(
    members: &CommMembers<'_>,
    out: DataBlocks,
    into: DataBlocks,
) -> Result<(), CollectiveRefusal> {
    // SAFETY: the program passes buffers of its elements, and arrays for all members.
    unsafe {
        let out = if is_in_place(out.0) { None } else { Some(members.blocks(out)?) };
        exchange(members, out, members.blocks(into)?)
    }
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Alltoallw`.
pub(super) unsafe fn alltoall_types(
    members: &CommMembers<'_>,
    out: TypedBlocks,
    into: TypedBlocks,
) -> Result<(), CollectiveRefusal> {
    let blocks = |(base, numbers, datatypes): TypedBlocks| {
        // SAFETY: the program passes arrays for all members.
        unsafe { MemberBlocks::of_types(members.front, base, numbers, datatypes, members.count()) }
    };
    let out = if is_in_place(out.0) { None } else { Some(blocks(out)?) };
    // SAFETY: the program passes buffers of its elements.
    unsafe { exchange(members, out, blocks(into)?) }
}

/// # Safety
///
/// The elements of `out` can be read, and those of `into` can be written.
unsafe fn exchange(
    members: &CommMembers<'_>,
    out: Option<MemberBlocks>,
    mut into: MemberBlocks,
) -> Result<(), CollectiveRefusal> {
    // SAFETY: the caller guarantees it (contract of `exchange`).
    unsafe {
        let out = out.map(|out| out.load());
        if out.is_none() {
            into = into.load();
        }
        let from = out.as_ref().map(|out| (out.vector.part, RawBlocks::Ranges(&out.ranges)));
        members.group.alltoall_raw(from, into.vector.part, RawBlocks::Ranges(&into.ranges))?;
        into.vector.store();
    }
    Ok(())
}
