//! Memory regions.
//!
//! A peer on this host looks a region up before the kernel copies from it or to it. The owner
//! checks atomic operations against it. A device registers it when a peer on another node first
//! asks for it.

use core::ffi::c_void;

use strait_core::hca::Access;

use crate::abi::{
    DomainArg, FiStatus, Fid, FidArg, IoVec, LengthArg, ListArg, MrAttr, MrFid, NewArg, OpsMr,
    class, errno, flag,
};
use crate::domain::Domain;
use crate::object::{self, Object, ObjectRef};
use crate::regions::MrEntry;

/// A memory region. `struct fid_mr`.
#[repr(C)]
struct FidMr {
    fid: Fid,
    mem_desc: *mut c_void,
    key: u64,
    domain: ObjectRef<Domain>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for FidMr {
    type Class = MrFid;
    const CLASS: usize = class::MR;
    /// Enables a region. A region serves every endpoint, so there is nothing to do.
    const CONTROL: extern "C" fn(FidArg<'_>, i32, *mut c_void) -> FiStatus = enable;
}

static OPS: OpsMr = OpsMr { size: size_of::<OpsMr>(), reg, regv, regattr };

pub(crate) fn ops() -> *const OpsMr {
    &raw const OPS
}

extern "C" fn enable(_: FidArg<'_>, _: i32, _: *mut c_void) -> FiStatus {
    0
}

impl Drop for FidMr {
    fn drop(&mut self) {
        let _turn = self.domain.enter();
        self.domain.deregister(self.key);
    }
}

/// Returns the rights of peers to memory that is registered with libfabric's flags.
const fn rights(access: u64) -> Access {
    let remote_write = access & flag::REMOTE_WRITE != 0;
    Access {
        local_write: true,
        remote_read: access & flag::REMOTE_READ != 0,
        remote_write,
        remote_atomic: remote_write,
    }
}

fn register(
    domain: DomainArg<'_>,
    (base, length): (*const c_void, usize),
    access: u64,
    mr: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let domain = Domain::keep(domain);
    let key = {
        let _turn = domain.enter();
        domain.register(MrEntry { base: base.expose_provenance(), length, access: rights(access) })
    };
    let key = match key {
        Ok(key) => key,
        Err(error) => return error,
    };
    let fid = object::fid::<FidMr>(context);
    object::hand_out(FidMr { fid, mem_desc: core::ptr::null_mut(), key, domain }, mr)
}

/// Registers the only part of a list.
fn register_list(
    domain: DomainArg<'_>,
    list: &[IoVec],
    access: u64,
    mr: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    // The domain's attributes limit a region to one part.
    let [only] = list else { return -errno::EINVAL };
    register(domain, (only.iov_base, only.iov_len), access, mr, context)
}

extern "C" fn reg(
    domain: DomainArg<'_>,
    base: *const c_void,
    length: usize,
    access: u64,
    _offset: u64,
    _key: u64,
    _flags: u64,
    mr: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    register(domain, (base, length), access, mr, context)
}

extern "C" fn regv(
    domain: DomainArg<'_>,
    list: ListArg<'_, IoVec>,
    count: LengthArg,
    access: u64,
    _offset: u64,
    _key: u64,
    _flags: u64,
    mr: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    register_list(domain, list.slice(count), access, mr, context)
}

extern "C" fn regattr(
    domain: DomainArg<'_>,
    attr: Option<&MrAttr<'_>>,
    _flags: u64,
    mr: NewArg<'_>,
) -> FiStatus {
    let Some(attr) = attr else { return -errno::EINVAL };
    // The kernel cannot reach device memory.
    if attr.iface != 0 {
        return -errno::ENOSYS;
    }
    register_list(domain, attr.mr_iov.slice(attr.iov_count), attr.access, mr, attr.context)
}
