//! The arguments of collective operations: elements, and blocks of elements for all members.

use strait::raw::RawBlocks;

use super::vector::{MemberBlocks, Numbers, Vector};
use super::{CollectiveRefusal, CommMembers};
use crate::abi::{self, Handle};
use crate::front::host::{HandlePtr, Pointer};

/// Elements of a call: an address, a number and a type.
pub(super) type Data = (Pointer, i64, Handle);

/// The blocks of all members.
#[derive(Clone, Copy)]
pub(super) enum AllData {
    /// Blocks with as many elements each, one behind the other.
    Equal(Data),
    /// Blocks of elements of one type: an address, numbers and offsets, and the type.
    Blocks(Pointer, (Numbers, Numbers), Handle),
    /// Blocks with a type for each.
    Typed(Pointer, (Numbers, Numbers), HandlePtr),
}

impl AllData {
    pub(super) const fn base(self) -> Pointer {
        match self {
            Self::Equal((base, ..)) | Self::Blocks(base, ..) | Self::Typed(base, ..) => base,
        }
    }

    pub(super) fn is_in_place(self) -> bool {
        is_in_place(self.base())
    }

    /// Returns the blocks as a member without the vector knows them, which has a block of `own`
    /// bytes.
    pub(super) const fn elsewhere(self, own: usize) -> RawBlocks<'static> {
        match self {
            Self::Equal(_) => RawBlocks::Equal(own),
            Self::Blocks(..) | Self::Typed(..) => RawBlocks::Ranges(&[]),
        }
    }
}

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

    /// # Safety
    ///
    /// The arrays have a place for each member.
    pub(super) unsafe fn blocks(&self, all: AllData) -> Result<MemberBlocks, CollectiveRefusal> {
        let (front, members) = (self.front, self.count());
        // SAFETY: the caller guarantees it (contract of `blocks`).
        unsafe {
            match all {
                AllData::Equal(data) => MemberBlocks::equal(front, data, members),
                AllData::Blocks(base, numbers, datatype) => {
                    MemberBlocks::of_one_type(front, base, numbers, datatype, members)
                }
                AllData::Typed(base, numbers, datatypes) => {
                    MemberBlocks::of_types(front, base, numbers, datatypes, members)
                }
            }
        }
    }

    /// Returns what this member gathers: its own elements, or `None` if they are in their block,
    /// and the blocks.
    ///
    /// # Safety
    ///
    /// The elements can be read, and the arrays have a place for each member.
    pub(super) unsafe fn gathered(
        &self,
        own: Data,
        all: AllData,
    ) -> Result<(Option<Vector>, MemberBlocks), CollectiveRefusal> {
        // SAFETY: the caller guarantees it (contract of `gathered`).
        unsafe {
            let blocks = self.blocks(all)?;
            if is_in_place(own.0) {
                return Ok((None, blocks.load()));
            }
            let vector = self.vector(own)?;
            if self.is_own_block_in_place((own, vector.part), (all, &blocks))? {
                return Ok((None, blocks.load()));
            }
            Ok((Some(vector.load()), blocks))
        }
    }
}
