//! Reading and writing remote memory.

use core::ffi::c_void;
use core::ptr;

use super::Endpoint;
use crate::abi::{FiAddr, Fid, IoVec, MsgRma, OpsRma, Ssize, errno, flag};
use crate::buffer::Buffer;
use crate::object::Object;
use crate::traffic::{Access, Op};

static OPS: OpsRma = OpsRma {
    size: size_of::<OpsRma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

pub(super) fn ops() -> *const OpsRma {
    &raw const OPS
}

/// What a call wants to reach.
#[derive(Clone, Copy, Debug)]
struct Target {
    peer: FiAddr,
    address: u64,
    key: u64,
    data: Option<u64>,
    context: *mut c_void,
    quiet: bool,
    inject: bool,
}

impl Endpoint {
    /// By a call without flags.
    fn target(&self, peer: FiAddr, (address, key): (u64, u64), context: *mut c_void) -> Target {
        let flags = self.tx.op_flags.get();
        let (quiet, inject) = (self.tx.quiet(flags), flags & flag::INJECT != 0);
        Target { peer, address, key, data: None, context, quiet, inject }
    }

    /// # Safety
    ///
    /// The buffer is the user's until the completion.
    unsafe fn access(&self, op: Op, target: Target, buffer: &Buffer) -> Ssize {
        let rank = match self.rank(target.peer) {
            Ok(rank) => rank,
            Err(error) => return error,
        };
        let Target { address, key, data, context, quiet, inject, .. } = target;
        let inject = inject && op == Op::Write;
        let access = Access { op, rank, address, key, data, context, quiet, inject };
        // SAFETY: by the contract.
        self.with(|traffic| unsafe { traffic.access(access, buffer) })
    }

    /// # Safety
    ///
    /// As for [`Endpoint::access`], for a list of `count` parts.
    unsafe fn access_list(
        &self,
        op: Op,
        target: Target,
        (list, count): (*const IoVec, usize),
    ) -> Ssize {
        // SAFETY: by the contract.
        unsafe {
            match Buffer::list(list, count) {
                Ok(buffer) => self.access(op, target, &buffer),
                Err(error) => error,
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Endpoint::access`], for a message of libfabric's.
    unsafe fn access_msg(&self, op: Op, msg: &MsgRma, flags: u64) -> Ssize {
        if msg.rma_iov_count != 1 {
            return -(errno::EINVAL as Ssize);
        }
        // SAFETY: by libfabric's contract.
        let place = unsafe { &*msg.rma_iov };
        let target = Target {
            peer: msg.addr,
            address: place.addr,
            key: place.key,
            data: (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data),
            context: msg.context,
            quiet: self.tx.quiet(flags),
            inject: flags & flag::INJECT != 0,
        };
        // SAFETY: by the contract.
        unsafe { self.access_list(op, target, (msg.msg_iov, msg.iov_count)) }
    }
}

unsafe extern "C" fn read(
    endpoint: *mut Fid,
    base: *mut c_void,
    length: usize,
    _desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let target = this.target(peer, (address, key), context);
        this.access(Op::Read, target, &Buffer::one(base, length))
    }
}

unsafe extern "C" fn readv(
    endpoint: *mut Fid,
    list: *const IoVec,
    _desc: *mut *mut c_void,
    count: usize,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        this.access_list(Op::Read, this.target(peer, (address, key), context), (list, count))
    }
}

unsafe extern "C" fn readmsg(endpoint: *mut Fid, msg: *const MsgRma, flags: u64) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe { Endpoint::of(endpoint).access_msg(Op::Read, &*msg, flags) }
}

unsafe extern "C" fn write(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    _desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let target = this.target(peer, (address, key), context);
        this.access(Op::Write, target, &Buffer::one(base, length))
    }
}

unsafe extern "C" fn writev(
    endpoint: *mut Fid,
    list: *const IoVec,
    _desc: *mut *mut c_void,
    count: usize,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        this.access_list(Op::Write, this.target(peer, (address, key), context), (list, count))
    }
}

unsafe extern "C" fn writemsg(endpoint: *mut Fid, msg: *const MsgRma, flags: u64) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe { Endpoint::of(endpoint).access_msg(Op::Write, &*msg, flags) }
}

unsafe extern "C" fn inject(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    peer: FiAddr,
    address: u64,
    key: u64,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let target = Target {
            quiet: true,
            inject: true,
            ..this.target(peer, (address, key), ptr::null_mut())
        };
        this.access(Op::Write, target, &Buffer::one(base, length))
    }
}

unsafe extern "C" fn writedata(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    _desc: *mut c_void,
    data: u64,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let target = Target { data: Some(data), ..this.target(peer, (address, key), context) };
        this.access(Op::Write, target, &Buffer::one(base, length))
    }
}

unsafe extern "C" fn injectdata(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    data: u64,
    peer: FiAddr,
    address: u64,
    key: u64,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let target = this.target(peer, (address, key), ptr::null_mut());
        let target = Target { data: Some(data), quiet: true, inject: true, ..target };
        this.access(Op::Write, target, &Buffer::one(base, length))
    }
}
