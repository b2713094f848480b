//! One buffer for both sides of an operation, which the standard forbids (MPI-5.0 §2.3).
//!
//! MPICH reports it, unless its user has turned that off, and Open MPI carries most of these calls
//! out. A call goes to the host only if the host reports it: otherwise this process would wait in
//! the host's operation for members that are in Strait's. A host that does not report it means an
//! operation in place, and so does the front then.

use core::ptr::without_provenance_mut;

use strait::raw::Part;

use super::arguments::{AllData, Data};
use super::reduce::Reduced;
use super::vector::{MemberBlocks, Numbers};
use super::{CollectiveRefusal, CommMembers, host as collective_host};
use crate::abi;
use crate::front::host;

impl CommMembers<'_> {
    /// Returns the arguments of a reduction of `count` elements, in place if it has one buffer.
    #[inline(always)]
    pub(super) fn separate(&self, args: Reduced, count: i64) -> Result<Reduced, CollectiveRefusal> {
        if args.data != args.result {
            return Ok(args);
        }
        self.refuse_alias(count != 0)?;
        Ok(Reduced { data: without_provenance_mut(abi::IN_PLACE as usize), ..args })
    }

    /// Returns whether an exchange is in place, because the program says so or by one buffer.
    ///
    /// # Safety
    ///
    /// The arrays have a place for each member.
    #[inline(always)]
    pub(super) unsafe fn is_in_place(
        &self,
        out: AllData,
        into: AllData,
    ) -> Result<bool, CollectiveRefusal> {
        if out.base() != into.base() {
            return Ok(out.is_in_place());
        }
        // SAFETY: the caller guarantees the same.
        let is_alias = unsafe { self.is_same_blocks(out, into) };
        self.refuse_alias(is_alias)?;
        Ok(is_alias)
    }

    /// Returns whether a member's own elements, which are `part`, are its block.
    ///
    /// # Safety
    ///
    /// The arrays have a place for each member.
    #[inline(always)]
    pub(super) unsafe fn is_own_block_in_place(
        &self,
        (own, part): (Data, Part),
        (all, blocks): (AllData, &MemberBlocks),
    ) -> Result<bool, CollectiveRefusal> {
        if !blocks.is_at(self.place(), part) {
            return Ok(false);
        }
        // SAFETY: the caller guarantees the same.
        self.refuse_alias(unsafe { self.is_own_block(own, all) })?;
        Ok(true)
    }

    /// Refuses a call if its arguments are some that the host reports.
    #[cold]
    fn refuse_alias(&self, is_reported: bool) -> Result<(), CollectiveRefusal> {
        let refuses = || *self.front.refuses_aliases.get_or_init(host_refuses);
        if is_reported && refuses() { Err(CollectiveRefusal::Argument) } else { Ok(()) }
    }

    /// # Safety
    ///
    /// The arrays have a place for each member.
    unsafe fn is_same_blocks(&self, out: AllData, into: AllData) -> bool {
        match (out, into) {
            (AllData::Equal((_, sent, from)), AllData::Equal((_, received, to))) => {
                sent == received && sent != 0 && from == to
            }
            (AllData::Blocks(_, (sent, _), from), AllData::Blocks(_, (received, _), to)) => {
                // SAFETY: the caller guarantees the same.
                from == to && sent == received && unsafe { self.is_any(sent) }
            }
            (AllData::Typed(_, (sent, _), from), AllData::Typed(_, (received, _), to)) => {
                // SAFETY: the caller guarantees the same.
                from == to && sent == received && unsafe { self.is_any(sent) }
            }
            _ => false,
        }
    }

    /// # Safety
    ///
    /// The array has a number for each member.
    unsafe fn is_any(&self, counts: Numbers) -> bool {
        // SAFETY: the caller guarantees it (contract of `is_any`).
        (0..self.count()).any(|place| unsafe { counts.at(place) } != 0)
    }

    /// # Safety
    ///
    /// The arrays have a place for each member.
    unsafe fn is_own_block(&self, (_, count, datatype): Data, all: AllData) -> bool {
        let is_block = match all {
            AllData::Equal((_, room, to)) => count == room && datatype == to,
            AllData::Blocks(_, (rooms, _), to) => {
                // SAFETY: the caller guarantees it (contract of `is_own_block`).
                datatype == to && unsafe { rooms.at(self.place()) } != 0
            }
            AllData::Typed(..) => false,
        };
        // A host may count a place in sizes.
        let flat = || self.front.types.find(datatype);
        is_block && count != 0 && flat().is_ok_and(|flat| flat.is_contiguous() && flat.size > 0)
    }
}

/// Asks the host whether it reports one buffer for both sides, on a communicator without others. A
/// scan without a result copies nothing, so a host that lets it pass does no harm.
fn host_refuses() -> bool {
    let (mut alone, mut data) = (abi::comm_null(), 0_i64);
    let at = (&raw mut data).cast();
    // SAFETY: the communicator that is made has this process alone. The buffer has one number, and
    // all results have places.
    unsafe {
        if host::Comm_split(abi::comm_self(), 0, 0, &raw mut alone) != 0 {
            return false;
        }
        let is_refused = host::Comm_set_errhandler(alone, abi::errors_return()) == 0
            && collective_host::Exscan(at, at, 1, abi::int64(), abi::op_max(), alone) != 0;
        host::Comm_free(&raw mut alone);
        is_refused
    }
}
