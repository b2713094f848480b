//! Memory regions. Peers reach the memory of a process through the kernel, by its own addresses, so there is nothing to register;
//! a key only tells one region from another.

use core::ffi::c_void;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::abi::{Fid, IoVec, MrAttr, OpsMr, Status, class, errno};
use crate::object::{self, Object};

/// A memory region. `struct fid_mr`.
#[repr(C)]
struct Region {
    fid: Fid,
    mem_desc: *mut c_void,
    key: u64,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Region {
    const CLASS: usize = class::MR;
    /// A region serves every endpoint, and has nothing to enable.
    const CONTROL: unsafe extern "C" fn(*mut Fid, i32, *mut c_void) -> Status = enable;
}

static OPS: OpsMr = OpsMr { size: size_of::<OpsMr>(), reg, regv, regattr };

pub(crate) fn ops() -> *const OpsMr {
    &raw const OPS
}

unsafe extern "C" fn enable(_: *mut Fid, _: i32, _: *mut c_void) -> Status {
    0
}

/// # Safety
///
/// `mr` may be written.
unsafe fn register(mr: *mut *mut Fid, context: *mut c_void) -> Status {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let made = Region {
        fid: object::fid::<Region>(context),
        mem_desc: core::ptr::null_mut(),
        key: NEXT.fetch_add(1, Relaxed),
    };
    // SAFETY: by the contract.
    unsafe { object::hand_out(made, mr) }
}

unsafe extern "C" fn reg(
    _domain: *mut Fid,
    _base: *const c_void,
    _length: usize,
    _access: u64,
    _offset: u64,
    _key: u64,
    _flags: u64,
    mr: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { register(mr, context) }
}

unsafe extern "C" fn regv(
    _domain: *mut Fid,
    _list: *const IoVec,
    _count: usize,
    _access: u64,
    _offset: u64,
    _key: u64,
    _flags: u64,
    mr: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { register(mr, context) }
}

unsafe extern "C" fn regattr(
    _domain: *mut Fid,
    attr: *const MrAttr,
    _flags: u64,
    mr: *mut *mut Fid,
) -> Status {
    // SAFETY: by libfabric's contract.
    let Some(attr) = (unsafe { attr.as_ref() }) else { return -errno::EINVAL };
    // Memory of devices is out of the kernel's reach.
    if attr.iface != 0 {
        return -errno::ENOSYS;
    }
    // SAFETY: by libfabric's contract.
    unsafe { register(mr, attr.context) }
}
