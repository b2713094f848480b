//! The binary interface of MPICH 4 and 5, and of Intel MPI: handles are numbers of 32 bits.
//!
//! Source: `mpi.h` of MPICH. `cargo xtask mpi` compares the constants with a host's header.

use core::ffi::{CStr, c_int, c_void};

#[path = "mpich_windows.rs"]
pub(crate) mod windows;

/// A handle of any kind.
pub(crate) type Handle = c_int;

pub(crate) const NAME: &str = "MPICH";

/// Prefixes of the file names of the hosts' libraries.
pub(crate) const LIBRARIES: &[&str] = &["libmpi.so.12", "libmpich.so.12"];

pub(crate) const PROC_NULL: c_int = -1;
pub(crate) const ANY_SOURCE: c_int = -2;
pub(crate) const ANY_TAG: c_int = -1;
pub(crate) const UNDEFINED: c_int = -32766;

pub(crate) const ORDER_C: c_int = 56;
pub(crate) const DISTRIBUTE_BLOCK: c_int = 121;
pub(crate) const DISTRIBUTE_CYCLIC: c_int = 122;
pub(crate) const DISTRIBUTE_DFLT_DARG: c_int = -49767;

pub(crate) const CART: c_int = 2;
pub(crate) const GRAPH: c_int = 1;
pub(crate) const DIST_GRAPH: c_int = 3;

pub(crate) const THREAD_MULTIPLE: c_int = 3;

pub(crate) const COMBINER_NAMED: c_int = 1;
pub(crate) const COMBINER_DUP: c_int = 2;
pub(crate) const COMBINER_CONTIGUOUS: c_int = 3;
pub(crate) const COMBINER_VECTOR: c_int = 4;
pub(crate) const COMBINER_HVECTOR: c_int = 6;
pub(crate) const COMBINER_INDEXED: c_int = 7;
pub(crate) const COMBINER_HINDEXED: c_int = 9;
pub(crate) const COMBINER_INDEXED_BLOCK: c_int = 10;
pub(crate) const COMBINER_HINDEXED_BLOCK: c_int = 19;
pub(crate) const COMBINER_STRUCT: c_int = 12;
pub(crate) const COMBINER_SUBARRAY: c_int = 13;
pub(crate) const COMBINER_DARRAY: c_int = 14;
pub(crate) const COMBINER_F90_REAL: c_int = 15;
pub(crate) const COMBINER_F90_COMPLEX: c_int = 16;
pub(crate) const COMBINER_F90_INTEGER: c_int = 17;
pub(crate) const COMBINER_RESIZED: c_int = 18;

pub(crate) const ERR_BUFFER: c_int = 1;
pub(crate) const ERR_COUNT: c_int = 2;
pub(crate) const ERR_TYPE: c_int = 3;
pub(crate) const ERR_TAG: c_int = 4;
pub(crate) const ERR_RANK: c_int = 6;
pub(crate) const ERR_REQUEST: c_int = 19;
pub(crate) const ERR_TRUNCATE: c_int = 14;
pub(crate) const ERR_OTHER: c_int = 15;
pub(crate) const ERR_INTERN: c_int = 16;
pub(crate) const ERR_IN_STATUS: c_int = 17;
pub(crate) const ERR_NO_MEM: c_int = 34;
/// `MPIX_ERR_PROC_FAILED`.
pub(crate) const ERR_PROC_FAILED: c_int = 101;

/// Whether these MPIs take no elements of `MPI_DATATYPE_NULL`, with which the standard allows no
/// message.
pub(crate) const TAKES_NOTHING_OF_NO_TYPE: bool = true;

/// Bytes of `MPI_Status`.
pub(crate) const STATUS_BYTES: usize = 20;

/// Number that is added to a slot to make a Fortran handle of one of our requests.
pub(crate) const FORTRAN_BASE: c_int = 1;

/// Requests of ours are the numbers from 1: no host has a handle with these upper bits.
const REQUESTS_END: Handle = 0x0400_0000;

#[inline(always)]
pub(crate) const fn datatype_null() -> Handle {
    0x0c00_0000
}

#[inline(always)]
pub(crate) const fn comm_world() -> Handle {
    0x4400_0000
}

#[inline(always)]
pub(crate) const fn comm_self() -> Handle {
    0x4400_0001
}

#[inline(always)]
pub(crate) const fn op_null() -> Handle {
    0x1800_0000
}

#[inline(always)]
pub(crate) const fn comm_null() -> Handle {
    0x0400_0000
}

pub(crate) const fn errors_are_fatal() -> Handle {
    0x5400_0000
}

pub(crate) const fn errors_return() -> Handle {
    0x5400_0001
}

#[inline(always)]
pub(crate) const fn request_null() -> Handle {
    0x2c00_0000
}

#[inline(always)]
pub(crate) const fn message_null() -> Handle {
    0x2c00_0000
}

#[inline(always)]
pub(crate) const fn message_no_proc() -> Handle {
    0x6c00_0000
}

#[inline(always)]
pub(crate) const fn byte() -> Handle {
    0x4c00_010d
}

#[inline(always)]
pub(crate) const fn int64() -> Handle {
    0x4c00_083a
}

#[inline(always)]
pub(crate) const fn op_max() -> Handle {
    0x5800_0001
}

#[inline(always)]
pub(crate) const fn op_min() -> Handle {
    0x5800_0002
}

/// Returns the size in bytes of a predefined type without gaps, if the handle tells it.
#[inline(always)]
pub(crate) const fn builtin_size(datatype: Handle) -> Option<usize> {
    if datatype >> 16 == 0x4c00 { Some((datatype >> 8 & 0xff) as usize) } else { None }
}

/// Reads what only the running host knows.
pub(crate) const fn load(_symbol: fn(&CStr) -> *mut c_void) -> Result<(), &'static str> {
    Ok(())
}

/// Returns the handle of the request in a slot.
#[inline(always)]
pub(crate) const fn request_handle(slot: u32) -> Handle {
    slot as Handle + 1
}

/// Prepares the handle of a slot, before the program gets it for the first time. A number needs
/// nothing.
pub(crate) const fn prepare_handle(_slot: u32) {}

/// Returns the slot of a handle, if the request is ours.
#[inline(always)]
pub(crate) const fn request_slot(handle: Handle) -> Option<u32> {
    if 0 < handle && handle < REQUESTS_END { Some(handle as u32 - 1) } else { None }
}

/// Number of requests that there are handles for.
pub(crate) const REQUESTS: u32 = REQUESTS_END as u32 - 1;

pub(crate) const IN_PLACE: isize = -1;
/// The address that stands for a status, or an array of them, that the program does not want.
pub(crate) const STATUS_IGNORE: *mut c_void = core::ptr::without_provenance_mut(1);

#[inline(always)]
pub(crate) fn is_ignored(status: *mut c_void) -> bool {
    status.addr() == 1
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
    // SAFETY: a status has five words of this type (contract of `write_status`).
    unsafe {
        words.write(bytes as c_int);
        words.add(1).write(((bytes >> 32) as c_int) << 1 | cancelled as c_int);
        words.add(2).write(source);
        words.add(3).write(tag);
    }
}

/// Writes the error of a status.
///
/// # Safety
///
/// `status` leads to a status.
pub(crate) unsafe fn write_error(status: *mut c_void, code: c_int) {
    // SAFETY: a status has five words of this type (contract of `write_error`).
    unsafe { status.cast::<c_int>().add(4).write(code) };
}
