//! What windows need of the binary interface of MPICH 4 and 5, and of Intel MPI.

use core::ffi::c_int;

use super::Handle;

/// Predefined operations, in the order of `windows::ops`.
pub(crate) fn ops() -> [Handle; 14] {
    core::array::from_fn(|number| 0x5800_0001 + number as Handle)
}

pub(crate) const LOCK_EXCLUSIVE: c_int = 234;
pub(crate) const LOCK_SHARED: c_int = 235;

pub(crate) const MODE_NOCHECK: c_int = 1024;
pub(crate) const MODE_NOSTORE: c_int = 2048;
pub(crate) const MODE_NOPUT: c_int = 4096;
pub(crate) const MODE_NOPRECEDE: c_int = 8192;
pub(crate) const MODE_NOSUCCEED: c_int = 16384;

pub(crate) const WIN_CREATE_FLAVOR: c_int = 0x66000007;
pub(crate) const WIN_MODEL: c_int = 0x66000009;

pub(crate) const WIN_FLAVOR_CREATE: c_int = 1;
pub(crate) const WIN_FLAVOR_ALLOCATE: c_int = 2;
pub(crate) const WIN_FLAVOR_DYNAMIC: c_int = 3;
pub(crate) const WIN_FLAVOR_SHARED: c_int = 4;
pub(crate) const WIN_UNIFIED: c_int = 2;

pub(crate) const ERR_OP: c_int = 9;
pub(crate) const ERR_LOCKTYPE: c_int = 47;
pub(crate) const ERR_RMA_SYNC: c_int = 50;
pub(crate) const ERR_RMA_RANGE: c_int = 55;
pub(crate) const ERR_RMA_ATTACH: c_int = 56;
pub(crate) const ERR_RMA_FLAVOR: c_int = 58;

/// Whether these MPIs refuse `MPI_Win_free` in an epoch, which the standard forbids.
/// `ffi/mpi/tests/free_in_epoch.c` asks them.
pub(crate) const REFUSES_FREE_IN_EPOCH: bool = true;
