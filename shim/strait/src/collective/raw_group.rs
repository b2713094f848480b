//! Collective operations without borrows, on bytes.

use strait_core::buffer::Part;

use super::Operator;
use super::raw::RawBlocks;
use crate::{Error, Group, sealed};

impl sealed::Sealed for Group<'_> {}

/// Collective operations of a [`Group`] on vectors of bytes.
///
/// All block, and all members call them in the same order. A death of a member ends them with
/// [`crate::Fault::PeerFailed`]. A group uses the context of its endpoint
/// ([`crate::Endpoint::with_context`], [`crate::Endpoint::group`]), so groups in contexts of their
/// own do not disturb each other. `own` is this member's vector; `None` stands for `MPI_IN_PLACE`.
/// A root is a place in the group.
///
/// # Safety of each function
///
/// Until it returns, the bytes of a vector that it reads are valid for reads and do not change. The
/// bytes of `data`, `result`, `into` and a gathered `all` are valid for reads and writes, and
/// nothing else accesses them. Parts of length 0 may have any aligned address.
pub trait RawGroup: sealed::Sealed {
    /// Returns whether no member is known to have died, for an embedder that exchanges messages of
    /// its own between the members.
    ///
    /// # Errors
    ///
    /// [`crate::Fault::PeerFailed`] with a member that died.
    fn check_whole(&self) -> Result<(), Error>;

    /// Broadcasts the root's `data` (MPI-5.0 §6.4, `MPI_Bcast`).
    ///
    /// # Errors
    ///
    /// Fails as [`Group::broadcast`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn broadcast_raw(&self, data: Part, root: u32) -> Result<(), Error>;

    /// Gathers the members' vectors in the blocks of `all` at the root (MPI-5.0 §6.5,
    /// `MPI_Gather`, `MPI_Gatherv`). Other members use `blocks` only to tell the two apart:
    /// [`RawBlocks::Equal`] has the same length at all members, and ranges may be empty there.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::gatherv`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn gather_raw(
        &self,
        own: Option<Part>,
        all: Part,
        blocks: RawBlocks<'_>,
        root: u32,
    ) -> Result<(), Error>;

    /// Scatters the blocks of `all` of the root (MPI-5.0 §6.6, `MPI_Scatter`, `MPI_Scatterv`).
    /// `own` receives this member's; `None` at the root leaves it in `all`. `blocks` is as in
    /// [`RawGroup::gather_raw`].
    ///
    /// # Errors
    ///
    /// Fails as [`Group::scatterv`] does.
    ///
    /// # Safety
    ///
    /// See the trait. The bytes of `own` are written.
    unsafe fn scatter_raw(
        &self,
        all: Part,
        own: Option<Part>,
        blocks: RawBlocks<'_>,
        root: u32,
    ) -> Result<(), Error>;

    /// Gathers the members' vectors in the blocks of `all` everywhere (MPI-5.0 §6.7,
    /// `MPI_Allgather`, `MPI_Allgatherv`).
    ///
    /// # Errors
    ///
    /// Fails as [`Group::allgatherv`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn allgather_raw(
        &self,
        own: Option<Part>,
        all: Part,
        blocks: RawBlocks<'_>,
    ) -> Result<(), Error>;

    /// Sends each member its block of `out`, and receives the members' blocks in `into` (MPI-5.0
    /// §6.8, `MPI_Alltoall`, `MPI_Alltoallv`, and with ranges of packed bytes `MPI_Alltoallw`).
    /// `None` for `out` exchanges the blocks of `into` in place.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::alltoallv`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn alltoall_raw(
        &self,
        out: Option<(Part, RawBlocks<'_>)>,
        into: Part,
        to: RawBlocks<'_>,
    ) -> Result<(), Error>;

    /// Combines the members' vectors in `result` of the root (MPI-5.0 §6.9.1, `MPI_Reduce`). `own`
    /// is `None` at a root with its vector in `result`; `result` is `None` elsewhere.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::reduce`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn reduce_raw(
        &self,
        own: Option<Part>,
        result: Option<Part>,
        op: &dyn Operator,
        root: u32,
    ) -> Result<(), Error>;

    /// Combines the members' vectors in `result` everywhere (MPI-5.0 §6.9.6, `MPI_Allreduce`).
    ///
    /// # Errors
    ///
    /// Fails as [`Group::allreduce`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn allreduce_raw(
        &self,
        own: Option<Part>,
        result: Part,
        op: &dyn Operator,
    ) -> Result<(), Error>;

    /// Combines the members' vectors, and gives each member its block of the result (MPI-5.0
    /// §6.10, `MPI_Reduce_scatter`, `MPI_Reduce_scatter_block`). `result` has the length of the
    /// block. With `own` as `None` it has the whole vector before, and the block at its start
    /// afterwards.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::reduce_scatter`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn reduce_scatter_raw(
        &self,
        own: Option<Part>,
        result: Part,
        blocks: RawBlocks<'_>,
        op: &dyn Operator,
    ) -> Result<(), Error>;

    /// Combines the vectors of the places up to this member's (MPI-5.0 §6.11.1, `MPI_Scan`).
    ///
    /// # Errors
    ///
    /// Fails as [`Group::scan`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn scan_raw(
        &self,
        own: Option<Part>,
        result: Part,
        op: &dyn Operator,
    ) -> Result<(), Error>;

    /// Combines the vectors of the places before this member's (MPI-5.0 §6.11.2, `MPI_Exscan`).
    /// `result` of place 0 is left as it was.
    ///
    /// # Errors
    ///
    /// Fails as [`Group::exscan`] does.
    ///
    /// # Safety
    ///
    /// See the trait.
    unsafe fn exscan_raw(
        &self,
        own: Option<Part>,
        result: Part,
        op: &dyn Operator,
    ) -> Result<(), Error>;
}
