//! Event queues. They never have an event: endpoints here have no connections, and insertions
//! complete at once.

use core::ffi::{c_int, c_void};
use core::time::Duration;

use crate::abi::{
    EqArg, EqFid, FabricArg, FiStatus, Fid, NewArg, OpsEq, Ssize, absent, class, errno,
};
use crate::object::{self, Object, strerror};

/// An event queue.
#[repr(C)]
struct Eq {
    fid: Fid,
    ops: *const OpsEq,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Eq {
    type Class = EqFid;
    const CLASS: usize = class::EQ;
}

static OPS: OpsEq = OpsEq {
    size: size_of::<OpsEq>(),
    read,
    readerr,
    write: absent,
    sread,
    strerror: strerror::<EqFid>,
};

/// Opens an event queue, for `fi_eq_open`.
pub(crate) extern "C" fn open(
    _fabric: FabricArg<'_>,
    _attr: *mut c_void,
    eq: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    object::hand_out(Eq { fid: object::fid::<Eq>(context), ops: &raw const OPS }, eq)
}

const NOTHING: Ssize = -(errno::EAGAIN as Ssize);

extern "C" fn read(_: EqArg<'_>, _: *mut u32, _: *mut c_void, _: usize, _: u64) -> Ssize {
    NOTHING
}

extern "C" fn readerr(_: EqArg<'_>, _: *mut c_void, _: u64) -> Ssize {
    NOTHING
}

extern "C" fn sread(
    _: EqArg<'_>,
    _: *mut u32,
    _: *mut c_void,
    _: usize,
    milliseconds: c_int,
    _: u64,
) -> Ssize {
    // An infinite time-out must not wait for an event that cannot come.
    std::thread::sleep(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(1)));
    NOTHING
}
