//! Broadcast, gather and scatter (MPI-5.0 §6.4 to §6.6).

use core::ffi::c_int;

use strait::raw::RawGroup as _;

use super::arguments::{AllData, Data, is_in_place};
use super::vector::Vector;
use super::{CollectiveRefusal, CommMembers};

/// # Safety
///
/// The program guarantees the contract of `MPI_Bcast`.
pub(super) unsafe fn broadcast(
    members: &CommMembers<'_>,
    data: Data,
    root: c_int,
) -> Result<(), CollectiveRefusal> {
    let (root, is_root) = members.root(root)?;
    let mut vector = members.vector(data)?;
    // SAFETY: the program passes a buffer of its elements.
    unsafe {
        if is_root {
            vector = vector.load();
        }
        members.group.broadcast_raw(vector.part, root)?;
        if !is_root {
            vector.store();
        }
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Gather` or `MPI_Gatherv`.
pub(super) unsafe fn gather(
    members: &CommMembers<'_>,
    own: Data,
    all: AllData,
    root: c_int,
) -> Result<(), CollectiveRefusal> {
    let (root, is_root) = members.root(root)?;
    // SAFETY: the program passes buffers of its elements. Only the root has the second.
    unsafe {
        if !is_root {
            let (own, nothing) = (members.vector(own)?.load(), Vector::nothing());
            let blocks = all.elsewhere(own.part.length);
            members.group.gather_raw(Some(own.part), nothing.part, blocks, root)?;
            return Ok(());
        }
        let (own, all) = members.gathered(own, all)?;
        let part = own.as_ref().map(|own| own.part);
        members.group.gather_raw(part, all.vector.part, all.raw(), root)?;
        all.vector.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Scatter` or `MPI_Scatterv`.
pub(super) unsafe fn scatter(
    members: &CommMembers<'_>,
    all: AllData,
    own: Data,
    root: c_int,
) -> Result<(), CollectiveRefusal> {
    let (root, is_root) = members.root(root)?;
    // SAFETY: the program passes buffers of its elements. Only the root has the first.
    unsafe {
        let vector = if is_in_place(own.0) { None } else { Some(members.vector(own)?) };
        let mut part = vector.as_ref().map(|vector| vector.part);
        if is_root {
            let blocks = members.blocks(all)?;
            if let Some(own_part) = part
                && members.is_own_block_in_place((own, own_part), (all, &blocks))?
            {
                part = None;
            }
            let blocks = blocks.load();
            members.group.scatter_raw(blocks.vector.part, part, blocks.raw(), root)?;
        } else {
            let blocks = all.elsewhere(part.ok_or(CollectiveRefusal::Argument)?.length);
            members.group.scatter_raw(Vector::nothing().part, part, blocks, root)?;
        }
        vector.iter().for_each(|vector| vector.store());
    }
    Ok(())
}
