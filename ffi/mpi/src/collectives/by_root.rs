//! Broadcast, gather and scatter (MPI-5.0 §6.4 to §6.6).

use core::ffi::c_int;

use strait::raw::{RawBlocks, RawGroup as _};

use super::vector::{MemberBlocks, Numbers, Vector};
use super::{CollectiveRefusal, CommMembers};
use crate::abi::{self, Handle};
use crate::front::host::Pointer;

/// Elements of a call: an address, a number and a type.
pub(super) type Data = (Pointer, i64, Handle);

/// Blocks of a call: an address, numbers and offsets, and a type.
pub(super) type DataBlocks = (Pointer, (Numbers, Numbers), Handle);

/// Returns whether an argument is `MPI_IN_PLACE`.
pub(super) fn is_in_place(data: Pointer) -> bool {
    data.addr() as isize == abi::IN_PLACE
}

impl CommMembers<'_> {
    pub(super) fn vector(
        &self,
        (base, count, datatype): Data,
    ) -> Result<Vector, CollectiveRefusal> {
        Vector::new(self.front, base, count, datatype)
    }

    /// Returns a vector with `count` elements for each member.
    pub(super) fn vector_of_all(
        &self,
        (base, count, datatype): Data,
    ) -> Result<Vector, CollectiveRefusal> {
        let count = count.checked_mul(self.count() as i64).ok_or(CollectiveRefusal::Argument)?;
        self.vector((base, count, datatype))
    }

    /// # Safety
    ///
    /// The arrays have a number for each member.
    pub(super) unsafe fn blocks(
        &self,
        (base, numbers, datatype): DataBlocks,
    ) -> Result<MemberBlocks, CollectiveRefusal> {
        // SAFETY: the caller guarantees it (contract of `blocks`).
        unsafe { MemberBlocks::of_one_type(self.front, base, numbers, datatype, self.count()) }
    }
}

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
/// The program guarantees the contract of `MPI_Gather`.
pub(super) unsafe fn gather(
    members: &CommMembers<'_>,
    own: Data,
    all: Data,
    root: c_int,
) -> Result<(), CollectiveRefusal> {
    let (root, is_root) = members.root(root)?;
    // SAFETY: the program passes buffers of its elements. Only the root has the second.
    unsafe {
        if !is_root {
            let (own, nothing) = (members.vector(own)?.load(), Vector::nothing());
            let blocks = RawBlocks::Equal(own.part.length);
            members.group.gather_raw(Some(own.part), nothing.part, blocks, root)?;
            return Ok(());
        }
        let mut vector = members.vector_of_all(all)?;
        let own = if is_in_place(own.0) {
            vector = vector.load();
            None
        } else {
            Some(members.vector(own)?.load())
        };
        let blocks = RawBlocks::Equal(vector.part.length / members.count());
        let part = own.as_ref().map(|own| own.part);
        members.group.gather_raw(part, vector.part, blocks, root)?;
        vector.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Gatherv`.
pub(super) unsafe fn gather_blocks(
    members: &CommMembers<'_>,
    own: Data,
    all: DataBlocks,
    root: c_int,
) -> Result<(), CollectiveRefusal> {
    let (root, is_root) = members.root(root)?;
    // SAFETY: the program passes buffers of its elements. Only the root has the second.
    unsafe {
        if !is_root {
            let (own, nothing) = (members.vector(own)?.load(), Vector::nothing());
            let blocks = RawBlocks::Ranges(&[]);
            members.group.gather_raw(Some(own.part), nothing.part, blocks, root)?;
            return Ok(());
        }
        let mut all = members.blocks(all)?;
        let own = if is_in_place(own.0) {
            all = all.load();
            None
        } else {
            Some(members.vector(own)?.load())
        };
        let part = own.as_ref().map(|own| own.part);
        let blocks = RawBlocks::Ranges(&all.ranges);
        members.group.gather_raw(part, all.vector.part, blocks, root)?;
        all.vector.store();
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Scatter`.
pub(super) unsafe fn scatter(
    members: &CommMembers<'_>,
    all: Data,
    own: Data,
    root: c_int,
) -> Result<(), CollectiveRefusal> {
    let (root, is_root) = members.root(root)?;
    // SAFETY: the program passes buffers of its elements. Only the root has the first.
    unsafe {
        let own = if is_in_place(own.0) { None } else { Some(members.vector(own)?) };
        let part = own.as_ref().map(|own| own.part);
        if is_root {
            let all = members.vector_of_all(all)?.load();
            let blocks = RawBlocks::Equal(all.part.length / members.count());
            members.group.scatter_raw(all.part, part, blocks, root)?;
        } else {
            let own = own.as_ref().ok_or(CollectiveRefusal::Argument)?;
            let blocks = RawBlocks::Equal(own.part.length);
            members.group.scatter_raw(Vector::nothing().part, part, blocks, root)?;
        }
        own.iter().for_each(|own| own.store());
    }
    Ok(())
}

/// # Safety
///
/// The program guarantees the contract of `MPI_Scatterv`.
pub(super) unsafe fn scatter_blocks(
    members: &CommMembers<'_>,
    all: DataBlocks,
    own: Data,
    root: c_int,
) -> Result<(), CollectiveRefusal> {
    let (root, is_root) = members.root(root)?;
    // SAFETY: the program passes buffers of its elements. Only the root has the first.
    unsafe {
        let own = if is_in_place(own.0) { None } else { Some(members.vector(own)?) };
        let part = own.as_ref().map(|own| own.part);
        if is_root {
            let all = members.blocks(all)?.load();
            let blocks = RawBlocks::Ranges(&all.ranges);
            members.group.scatter_raw(all.vector.part, part, blocks, root)?;
        } else {
            let nothing = Vector::nothing().part;
            members.group.scatter_raw(nothing, part, RawBlocks::Ranges(&[]), root)?;
        }
        own.iter().for_each(|own| own.store());
    }
    Ok(())
}
