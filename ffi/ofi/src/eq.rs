//! Event queues, in which nothing ever happens: endpoints here have no connections, and insertions are over at once.

use core::ffi::{c_int, c_void};
use core::time::Duration;

use crate::abi::{Fid, OpsEq, Ssize, Status, absent, class, errno};
use crate::cq::strerror;
use crate::object::{self, Object};

/// An event queue.
#[repr(C)]
struct Eq {
    fid: Fid,
    ops: *const OpsEq,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Eq {
    const CLASS: usize = class::EQ;
}

static OPS: OpsEq =
    OpsEq { size: size_of::<OpsEq>(), read, readerr, write: absent, sread, strerror };

/// Opens an event queue.
///
/// # Safety
///
/// libfabric's, of `fi_eq_open`.
pub(crate) unsafe extern "C" fn open(
    _fabric: *mut Fid,
    _attr: *mut c_void,
    eq: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    unsafe { object::hand_out(Eq { fid: object::fid::<Eq>(context), ops: &raw const OPS }, eq) }
}

const NOTHING: Ssize = -(errno::EAGAIN as Ssize);

unsafe extern "C" fn read(_: *mut Fid, _: *mut u32, _: *mut c_void, _: usize, _: u64) -> Ssize {
    NOTHING
}

unsafe extern "C" fn readerr(_: *mut Fid, _: *mut c_void, _: u64) -> Ssize {
    NOTHING
}

unsafe extern "C" fn sread(
    _: *mut Fid,
    _: *mut u32,
    _: *mut c_void,
    _: usize,
    milliseconds: c_int,
    _: u64,
) -> Ssize {
    // Nobody waits for ever for what cannot come.
    std::thread::sleep(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(1)));
    NOTHING
}
