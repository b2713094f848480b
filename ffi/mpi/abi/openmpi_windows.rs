//! What windows need of the binary interface of Open MPI 4.1 and 5.

use core::ffi::c_int;

use super::Handle;

/// Predefined operations, in the order of `windows::ops`.
pub(crate) fn ops() -> [Handle; 14] {
    [
        super::op_max(),
        super::op_min(),
        super::op_sum(),
        super::op_prod(),
        super::op_land(),
        super::op_band(),
        super::op_lor(),
        super::op_bor(),
        super::op_lxor(),
        super::op_bxor(),
        super::op_minloc(),
        super::op_maxloc(),
        super::op_replace(),
        super::op_no_op(),
    ]
}

pub(crate) const LOCK_EXCLUSIVE: c_int = 1;
pub(crate) const LOCK_SHARED: c_int = 2;

pub(crate) const MODE_NOCHECK: c_int = 1;
pub(crate) const MODE_NOPRECEDE: c_int = 2;
pub(crate) const MODE_NOPUT: c_int = 4;
pub(crate) const MODE_NOSTORE: c_int = 8;
pub(crate) const MODE_NOSUCCEED: c_int = 16;

pub(crate) const WIN_CREATE_FLAVOR: c_int = 10;
pub(crate) const WIN_MODEL: c_int = 11;

pub(crate) const WIN_FLAVOR_CREATE: c_int = 1;
pub(crate) const WIN_FLAVOR_ALLOCATE: c_int = 2;
pub(crate) const WIN_FLAVOR_DYNAMIC: c_int = 3;
pub(crate) const WIN_FLAVOR_SHARED: c_int = 4;
pub(crate) const WIN_UNIFIED: c_int = 0;

pub(crate) const ERR_OP: c_int = 10;
pub(crate) const ERR_LOCKTYPE: c_int = 37;
pub(crate) const ERR_RMA_SYNC: c_int = 47;
pub(crate) const ERR_RMA_RANGE: c_int = 68;
pub(crate) const ERR_RMA_ATTACH: c_int = 69;
pub(crate) const ERR_RMA_FLAVOR: c_int = 70;

/// Whether these MPIs refuse `MPI_Win_free` in an epoch, which the standard forbids.
/// `ffi/mpi/tests/free_in_epoch.c` asks them.
pub(crate) const REFUSES_FREE_IN_EPOCH: bool = false;
