//! Gathers to all, and exchanges of all with all (MPI-5.0 §6.7, §6.8).

use strait::raw::RawGroup as _;

use super::arguments::{AllData, Data};
use super::{CollectiveRefusal, CommMembers};

/// # Safety
///
/// The program guarantees the contract of `MPI_Allgather` or `MPI_Allgatherv`.
pub(super) unsafe fn allgather(
    members: &CommMembers<'_>,
    own: Data,
    all: AllData,
) -> Result<(), CollectiveRefusal> {
    // SAFETY: the program passes buffers of its elements.
    unsafe {
        let (own, all) = members.gathered(own, all)?;
        let part = own.as_ref().map(|own| own.part);
        members.group.allgather_raw(part, all.vector.part, all.raw())?;
        all.vector.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Alltoall`, `MPI_Alltoallv` or `MPI_Alltoallw`.
pub(super) unsafe fn alltoall(
    members: &CommMembers<'_>,
    out: AllData,
    into: AllData,
) -> Result<(), CollectiveRefusal> {
    // SAFETY: the program passes buffers of its elements, and arrays for all members.
    unsafe {
        let is_in_place = members.is_in_place(out, into)?;
        let mut into = members.blocks(into)?;
        let out = if is_in_place {
            into = into.load();
            None
        } else {
            Some(members.blocks(out)?.load())
        };
        let from = out.as_ref().map(|out| (out.vector.part, out.raw()));
        members.group.alltoall_raw(from, into.vector.part, into.raw())?;
        into.vector.store();
    }
    Ok(())
}
