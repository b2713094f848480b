//! What windows need of the binary interface of MPI-5.0.

use core::ffi::c_int;

use super::Handle;

/// Predefined operations, in the order of `windows::ops`.
pub(crate) const fn ops() -> [Handle; 14] {
    [0x23, 0x22, 0x21, 0x24, 0x30, 0x28, 0x31, 0x29, 0x32, 0x2a, 0x38, 0x39, 0x3c, 0x3d]
}

pub(crate) const LOCK_EXCLUSIVE: c_int = 301;
pub(crate) const LOCK_SHARED: c_int = 302;

pub(crate) const MODE_NOCHECK: c_int = 1024;
pub(crate) const MODE_NOPRECEDE: c_int = 2048;
pub(crate) const MODE_NOPUT: c_int = 4096;
pub(crate) const MODE_NOSTORE: c_int = 8192;
pub(crate) const MODE_NOSUCCEED: c_int = 16384;

pub(crate) const WIN_CREATE_FLAVOR: c_int = 604;
pub(crate) const WIN_MODEL: c_int = 605;

pub(crate) const WIN_FLAVOR_CREATE: c_int = 311;
pub(crate) const WIN_FLAVOR_ALLOCATE: c_int = 312;
pub(crate) const WIN_FLAVOR_DYNAMIC: c_int = 313;
pub(crate) const WIN_FLAVOR_SHARED: c_int = 314;
pub(crate) const WIN_UNIFIED: c_int = 321;

pub(crate) const ERR_OP: c_int = 10;
pub(crate) const ERR_LOCKTYPE: c_int = 37;
pub(crate) const ERR_RMA_SYNC: c_int = 50;
pub(crate) const ERR_RMA_RANGE: c_int = 48;
pub(crate) const ERR_RMA_ATTACH: c_int = 46;
pub(crate) const ERR_RMA_FLAVOR: c_int = 57;

/// Whether these MPIs refuse `MPI_Win_free` in an epoch, which the standard forbids.
/// `ffi/mpi/tests/free_in_epoch.c` asks them.
pub(crate) const REFUSES_FREE_IN_EPOCH: bool = true;
