//! Memory regions. Peers on this host look a region up before the kernel copies from it or to it, the owner checks atomic operations
//! against it, and a device hears of it when a peer elsewhere first asks for it.

use core::ffi::c_void;

use strait_core::hca::Access;

use crate::abi::{Fid, IoVec, MrAttr, OpsMr, Status, class, errno, flag};
use crate::domain::Domain;
use crate::object::{self, Object};
use crate::regions::Registered;

/// A memory region. `struct fid_mr`.
#[repr(C)]
struct Region {
    fid: Fid,
    mem_desc: *mut c_void,
    key: u64,
    domain: *const Domain,
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

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: a domain outlives what was made in it.
        let domain = unsafe { &*self.domain };
        let _turn = domain.enter();
        domain.deregister(self.key);
    }
}

/// What peers may do with memory that is registered with libfabric's flags.
const fn rights(access: u64) -> Access {
    let remote_write = access & flag::REMOTE_WRITE != 0;
    Access {
        local_write: true,
        remote_read: access & flag::REMOTE_READ != 0,
        remote_write,
        remote_atomic: remote_write,
    }
}

/// # Safety
///
/// `domain` is one, and `mr` may be written.
unsafe fn register(
    domain: *mut Fid,
    (base, length): (*const c_void, usize),
    access: u64,
    mr: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    let domain = unsafe { Domain::of(domain) };
    let key = {
        let _turn = domain.enter();
        domain.register(Registered {
            base: base.expose_provenance(),
            length,
            access: rights(access),
        })
    };
    let key = match key {
        Ok(key) => key,
        Err(error) => return error,
    };
    let fid = object::fid::<Region>(context);
    let made = Region { fid, mem_desc: core::ptr::null_mut(), key, domain };
    // SAFETY: by the contract.
    unsafe { object::hand_out(made, mr) }
}

/// # Safety
///
/// As for [`register`]; `list` has `count` entries.
unsafe fn register_list(
    domain: *mut Fid,
    (list, count): (*const IoVec, usize),
    access: u64,
    mr: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // As the domain's attributes say.
    if count != 1 {
        return -errno::EINVAL;
    }
    // SAFETY: by the contract.
    unsafe {
        let only = &*list;
        register(domain, (only.iov_base, only.iov_len), access, mr, context)
    }
}

unsafe extern "C" fn reg(
    domain: *mut Fid,
    base: *const c_void,
    length: usize,
    access: u64,
    _offset: u64,
    _key: u64,
    _flags: u64,
    mr: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { register(domain, (base, length), access, mr, context) }
}

unsafe extern "C" fn regv(
    domain: *mut Fid,
    list: *const IoVec,
    count: usize,
    access: u64,
    _offset: u64,
    _key: u64,
    _flags: u64,
    mr: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { register_list(domain, (list, count), access, mr, context) }
}

unsafe extern "C" fn regattr(
    domain: *mut Fid,
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
    unsafe {
        let list = (attr.mr_iov, attr.iov_count);
        register_list(domain, list, attr.access, mr, attr.context)
    }
}
