//! The binary interface of Open MPI 4.1 and 5: handles are pointers, predefined ones lead to data
//! symbols, which may lie in the program.
//!
//! Source: `mpi.h` of Open MPI. `cargo xtask mpi` compares the constants with a host's
//! header.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

pub(crate) use super::pointers::{REQUESTS, prepare_handle, request_handle, request_slot, reserve};

#[path = "openmpi_windows.rs"]
pub(crate) mod windows;

/// A handle of any kind.
pub(crate) type Handle = usize;

pub(crate) const NAME: &str = "Open MPI";

/// Prefixes of the file names of the hosts' libraries.
pub(crate) const LIBRARIES: &[&str] = &["libmpi.so.40"];

pub(crate) const PROC_NULL: c_int = -2;
pub(crate) const ANY_SOURCE: c_int = -1;
pub(crate) const ANY_TAG: c_int = -1;
pub(crate) const UNDEFINED: c_int = -32766;

pub(crate) const ORDER_C: c_int = 0;
pub(crate) const DISTRIBUTE_BLOCK: c_int = 0;
pub(crate) const DISTRIBUTE_CYCLIC: c_int = 1;
pub(crate) const DISTRIBUTE_DFLT_DARG: c_int = -1;

pub(crate) const CART: c_int = 1;
pub(crate) const GRAPH: c_int = 2;
pub(crate) const DIST_GRAPH: c_int = 3;

pub(crate) const THREAD_MULTIPLE: c_int = 3;

pub(crate) const COMBINER_NAMED: c_int = 0;
pub(crate) const COMBINER_DUP: c_int = 1;
pub(crate) const COMBINER_CONTIGUOUS: c_int = 2;
pub(crate) const COMBINER_VECTOR: c_int = 3;
pub(crate) const COMBINER_HVECTOR: c_int = 5;
pub(crate) const COMBINER_INDEXED: c_int = 6;
pub(crate) const COMBINER_HINDEXED: c_int = 8;
pub(crate) const COMBINER_INDEXED_BLOCK: c_int = 9;
pub(crate) const COMBINER_HINDEXED_BLOCK: c_int = 18;
pub(crate) const COMBINER_STRUCT: c_int = 11;
pub(crate) const COMBINER_SUBARRAY: c_int = 12;
pub(crate) const COMBINER_DARRAY: c_int = 13;
pub(crate) const COMBINER_F90_REAL: c_int = 14;
pub(crate) const COMBINER_F90_COMPLEX: c_int = 15;
pub(crate) const COMBINER_F90_INTEGER: c_int = 16;
pub(crate) const COMBINER_RESIZED: c_int = 17;

pub(crate) const ERR_BUFFER: c_int = 1;
pub(crate) const ERR_COUNT: c_int = 2;
pub(crate) const ERR_TYPE: c_int = 3;
pub(crate) const ERR_TAG: c_int = 4;
pub(crate) const ERR_RANK: c_int = 6;
pub(crate) const ERR_REQUEST: c_int = 7;
pub(crate) const ERR_TRUNCATE: c_int = 15;
pub(crate) const ERR_OTHER: c_int = 16;
pub(crate) const ERR_INTERN: c_int = 17;
pub(crate) const ERR_IN_STATUS: c_int = 18;
pub(crate) const ERR_NO_MEM: c_int = 39;
/// `MPI_ERR_PROC_FAILED` of Open MPI 5. Open MPI 4.1 calls this class unknown.
pub(crate) const ERR_PROC_FAILED: c_int = 75;

/// Whether this MPI takes no elements of `MPI_DATATYPE_NULL`, with which the standard allows no
/// message.
pub(crate) const TAKES_NOTHING_OF_NO_TYPE: bool = false;

/// Bytes of `MPI_Status`.
pub(crate) const STATUS_BYTES: usize = 24;

/// Number that is added to a slot to make a Fortran handle of one of our requests. The host's own
/// are indices of a table.
pub(crate) const FORTRAN_BASE: c_int = 0x4000_0000;

/// Offset in bytes of the Fortran handle in a request, which the host's Fortran interface reads.
pub(crate) const FORTRAN_INDEX: Option<usize> = Some(0x68);

/// Defines a function for each predefined handle, and one that finds all of them.
macro_rules! symbols {
    ($($function:ident = $symbol:literal;)*) => {
        mod place {
            use super::AtomicUsize;
            $(#[expect(non_upper_case_globals, reason = "named as its function")]
            pub(super) static $function: AtomicUsize = AtomicUsize::new(0);)*
        }
        $(#[inline(always)]
        pub(crate) fn $function() -> Handle {
            place::$function.load(Relaxed)
        })*
        fn find(symbol: fn(&CStr) -> *mut c_void) -> Result<(), &'static str> {
            $(let at = symbol($symbol);
            if at.is_null() {
                return Err("a predefined handle of Open MPI is missing");
            }
            place::$function.store(at.addr(), Relaxed);)*
            Ok(())
        }
    };
}

symbols! {
    comm_world = c"ompi_mpi_comm_world";
    comm_self = c"ompi_mpi_comm_self";
    comm_null = c"ompi_mpi_comm_null";
    errors_are_fatal = c"ompi_mpi_errors_are_fatal";
    errors_return = c"ompi_mpi_errors_return";
    request_null = c"ompi_request_null";
    message_null = c"ompi_message_null";
    message_no_proc = c"ompi_message_no_proc";
    byte = c"ompi_mpi_byte";
    int64 = c"ompi_mpi_int64_t";
    op_max = c"ompi_mpi_op_max";
    op_min = c"ompi_mpi_op_min";
    op_sum = c"ompi_mpi_op_sum";
    op_prod = c"ompi_mpi_op_prod";
    op_land = c"ompi_mpi_op_land";
    op_band = c"ompi_mpi_op_band";
    op_lor = c"ompi_mpi_op_lor";
    op_bor = c"ompi_mpi_op_bor";
    op_lxor = c"ompi_mpi_op_lxor";
    op_bxor = c"ompi_mpi_op_bxor";
    op_minloc = c"ompi_mpi_op_minloc";
    op_maxloc = c"ompi_mpi_op_maxloc";
    op_replace = c"ompi_mpi_op_replace";
    op_no_op = c"ompi_mpi_op_no_op";
    op_null = c"ompi_mpi_op_null";
    datatype_null = c"ompi_mpi_datatype_null";
}

/// Returns the size in bytes of a predefined type, if the handle tells it. It does not.
#[inline(always)]
pub(crate) const fn builtin_size(_datatype: Handle) -> Option<usize> {
    None
}

/// Reads what only the running host knows.
pub(crate) fn load(symbol: fn(&CStr) -> *mut c_void) -> Result<(), &'static str> {
    find(symbol)?;
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
    // SAFETY: a status has four words of this type and a `size_t` (contract of `write_status`).
    unsafe {
        words.write(source);
        words.add(1).write(tag);
        words.add(3).write(cancelled as c_int);
        words.add(4).cast::<usize>().write(bytes);
    }
}

/// Writes the error of a status.
///
/// # Safety
///
/// `status` leads to a status.
pub(crate) unsafe fn write_error(status: *mut c_void, code: c_int) {
    // SAFETY: a status has four words of this type and a `size_t` (contract of `write_error`).
    unsafe { status.cast::<c_int>().add(2).write(code) };
}
