//! The binary interface of MPI-5.0, chapter 20: handles are pointers, predefined ones are small.
//!
//! MPICH and Intel MPI have it, as `libmpi_abi.so`. `cargo xtask mpi` compares the constants
//! with a host's header.

use core::ffi::{CStr, c_int, c_void};

pub(crate) use super::pointers::{REQUESTS, prepare_handle, request_handle, request_slot, reserve};

#[path = "standard_windows.rs"]
pub(crate) mod windows;

/// A handle of any kind.
pub(crate) type Handle = usize;

pub(crate) const NAME: &str = "MPI-5 ABI";

/// Prefixes of the file names of the hosts' libraries.
pub(crate) const LIBRARIES: &[&str] = &["libmpi_abi.so"];

pub(crate) const PROC_NULL: c_int = -3;
pub(crate) const ANY_SOURCE: c_int = -1;
pub(crate) const ANY_TAG: c_int = -2;
pub(crate) const UNDEFINED: c_int = -32766;

pub(crate) const ORDER_C: c_int = 12;
pub(crate) const DISTRIBUTE_BLOCK: c_int = 17;
pub(crate) const DISTRIBUTE_CYCLIC: c_int = 18;
pub(crate) const DISTRIBUTE_DFLT_DARG: c_int = 19;

pub(crate) const CART: c_int = 211;
pub(crate) const GRAPH: c_int = 212;
pub(crate) const DIST_GRAPH: c_int = 213;

pub(crate) const THREAD_MULTIPLE: c_int = 4096;

pub(crate) const COMBINER_NAMED: c_int = 101;
pub(crate) const COMBINER_DUP: c_int = 102;
pub(crate) const COMBINER_CONTIGUOUS: c_int = 103;
pub(crate) const COMBINER_VECTOR: c_int = 104;
pub(crate) const COMBINER_HVECTOR: c_int = 105;
pub(crate) const COMBINER_INDEXED: c_int = 106;
pub(crate) const COMBINER_HINDEXED: c_int = 107;
pub(crate) const COMBINER_INDEXED_BLOCK: c_int = 108;
pub(crate) const COMBINER_HINDEXED_BLOCK: c_int = 109;
pub(crate) const COMBINER_STRUCT: c_int = 110;
pub(crate) const COMBINER_SUBARRAY: c_int = 111;
pub(crate) const COMBINER_DARRAY: c_int = 112;
pub(crate) const COMBINER_F90_REAL: c_int = 113;
pub(crate) const COMBINER_F90_COMPLEX: c_int = 114;
pub(crate) const COMBINER_F90_INTEGER: c_int = 115;
pub(crate) const COMBINER_RESIZED: c_int = 116;

pub(crate) const ERR_BUFFER: c_int = 1;
pub(crate) const ERR_COUNT: c_int = 2;
pub(crate) const ERR_TYPE: c_int = 3;
pub(crate) const ERR_TAG: c_int = 4;
pub(crate) const ERR_RANK: c_int = 6;
pub(crate) const ERR_REQUEST: c_int = 7;
pub(crate) const ERR_TRUNCATE: c_int = 15;
pub(crate) const ERR_OTHER: c_int = 16;
pub(crate) const ERR_INTERN: c_int = 17;
pub(crate) const ERR_IN_STATUS: c_int = 19;
pub(crate) const ERR_NO_MEM: c_int = 39;
/// The interface has no class for a failed process.
pub(crate) const ERR_PROC_FAILED: c_int = ERR_OTHER;

/// Whether these MPIs take no elements of `MPI_DATATYPE_NULL`, with which the standard allows no
/// message.
pub(crate) const TAKES_NOTHING_OF_NO_TYPE: bool = true;

/// Bytes of `MPI_Status`.
pub(crate) const STATUS_BYTES: usize = 32;

/// Number that is added to a slot to make a Fortran handle of one of our requests. The hosts' own
/// are below 1024 or have the top bit set.
pub(crate) const FORTRAN_BASE: c_int = 0x0100_0000;

/// The host's Fortran interface reads nothing from requests.
pub(crate) const FORTRAN_INDEX: Option<usize> = None;

#[inline(always)]
pub(crate) const fn datatype_null() -> Handle {
    0x200
}

#[inline(always)]
pub(crate) const fn comm_world() -> Handle {
    0x101
}

#[inline(always)]
pub(crate) const fn comm_self() -> Handle {
    0x102
}

#[inline(always)]
pub(crate) const fn op_null() -> Handle {
    0x20
}

#[inline(always)]
pub(crate) const fn comm_null() -> Handle {
    0x100
}

pub(crate) const fn errors_are_fatal() -> Handle {
    0x141
}

pub(crate) const fn errors_return() -> Handle {
    0x143
}

#[inline(always)]
pub(crate) const fn request_null() -> Handle {
    0x180
}

#[inline(always)]
pub(crate) const fn message_null() -> Handle {
    0x128
}

#[inline(always)]
pub(crate) const fn message_no_proc() -> Handle {
    0x129
}

#[inline(always)]
pub(crate) const fn byte() -> Handle {
    0x247
}

#[inline(always)]
pub(crate) const fn int64() -> Handle {
    0x258
}

#[inline(always)]
pub(crate) const fn op_max() -> Handle {
    0x23
}

#[inline(always)]
pub(crate) const fn op_min() -> Handle {
    0x22
}

/// Returns the size in bytes of a predefined type without gaps, if the handle tells it: those of
/// fixed size have its logarithm in bits 3 to 5 (MPI-5.0 §20.2).
#[inline(always)]
pub(crate) const fn builtin_size(datatype: Handle) -> Option<usize> {
    if datatype & !0x3f == 0x240 { Some(1 << (datatype >> 3 & 7)) } else { None }
}

/// Reads what only the running host knows.
pub(crate) fn load(_symbol: fn(&CStr) -> *mut c_void) -> Result<(), &'static str> {
    reserve()
}

pub(crate) const IN_PLACE: isize = 1;
/// The address that stands for a status, or an array of them, that the program does not want.
pub(crate) const STATUS_IGNORE: *mut c_void = core::ptr::without_provenance_mut(0);

#[inline(always)]
pub(crate) fn is_ignored(status: *mut c_void) -> bool {
    status.is_null()
}

/// Writes a status except its error.
///
/// # Safety
///
/// `status` leads to a status.
#[inline(always)]
pub(crate) unsafe fn write_status(
    status: *mut c_void,
    (source, tag): (c_int, c_int),
    bytes: usize,
    cancelled: bool,
) {
    let words = status.cast::<c_int>();
    // SAFETY: a status has eight words of this type (contract of `write_status`).
    unsafe {
        words.write(source);
        words.add(1).write(tag);
        words.add(3).write(bytes as c_int);
        words.add(4).write(((bytes >> 32) as c_int) << 1 | cancelled as c_int);
    }
}

/// Writes the error of a status.
///
/// # Safety
///
/// `status` leads to a status.
pub(crate) unsafe fn write_error(status: *mut c_void, code: c_int) {
    // SAFETY: a status has eight words of this type (contract of `write_error`).
    unsafe { status.cast::<c_int>().add(2).write(code) };
}
