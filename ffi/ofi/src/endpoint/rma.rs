//! Reads and writes of remote memory.

use core::ffi::c_void;
use core::ptr;

use super::fid_ep::FidEp;
use crate::abi::{
    EpArg, FiAddr, IoVec, LengthArg, ListArg, MemoryArg, MsgRma, OpsRma, Ssize, errno, flag,
};
use crate::buffer::UserBuffer;
use crate::object::Object;
use crate::operation::OperationKind;
use crate::traffic::RemoteAccess;

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

/// The target of a call: a peer, and memory of it.
#[derive(Clone, Copy, Debug)]
struct RmaTarget {
    peer: FiAddr,
    address: u64,
    key: u64,
    data: Option<u64>,
    context: *mut c_void,
    quiet: bool,
    inject: bool,
}

impl FidEp {
    /// Returns the target of a call without flags.
    fn target(&self, peer: FiAddr, (address, key): (u64, u64), context: *mut c_void) -> RmaTarget {
        let flags = self.tx.op_flags.get();
        let (quiet, inject) = (self.tx.quiet(flags), flags & flag::INJECT != 0);
        RmaTarget { peer, address, key, data: None, context, quiet, inject }
    }

    fn access(&self, op: OperationKind, target: RmaTarget, buffer: &UserBuffer) -> Ssize {
        let rank = match self.rank(target.peer) {
            Ok(rank) => rank,
            Err(error) => return error,
        };
        let RmaTarget { address, key, data, context, quiet, inject, .. } = target;
        let inject = inject && op == OperationKind::Write;
        let access = RemoteAccess { op, rank, address, key, data, context, quiet, inject };
        self.with(|traffic| traffic.access(access, buffer))
    }

    fn access_list(
        &self,
        op: OperationKind,
        target: RmaTarget,
        list: ListArg<'_, IoVec>,
        count: LengthArg,
    ) -> Ssize {
        match UserBuffer::list(list, count) {
            Ok(buffer) => self.access(op, target, &buffer),
            Err(error) => error,
        }
    }

    fn access_msg(&self, op: OperationKind, msg: &MsgRma<'_>, flags: u64) -> Ssize {
        let [place] = msg.rma_iov.slice(msg.rma_iov_count) else {
            return -(errno::EINVAL as Ssize);
        };
        let target = RmaTarget {
            peer: msg.addr,
            address: place.addr,
            key: place.key,
            data: (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data),
            context: msg.context,
            quiet: self.tx.quiet(flags),
            inject: flags & flag::INJECT != 0,
        };
        self.access_list(op, target, msg.msg_iov, msg.iov_count)
    }
}

extern "C" fn read(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let target = this.target(peer, (address, key), context);
    this.access(OperationKind::Read, target, &UserBuffer::one(base, length))
}

extern "C" fn readv(
    endpoint: EpArg<'_>,
    list: ListArg<'_, IoVec>,
    _desc: *mut *mut c_void,
    count: LengthArg,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    this.access_list(OperationKind::Read, this.target(peer, (address, key), context), list, count)
}

extern "C" fn readmsg(endpoint: EpArg<'_>, msg: &MsgRma<'_>, flags: u64) -> Ssize {
    FidEp::of(endpoint).access_msg(OperationKind::Read, msg, flags)
}

extern "C" fn write(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let target = this.target(peer, (address, key), context);
    this.access(OperationKind::Write, target, &UserBuffer::one(base, length))
}

extern "C" fn writev(
    endpoint: EpArg<'_>,
    list: ListArg<'_, IoVec>,
    _desc: *mut *mut c_void,
    count: LengthArg,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    this.access_list(OperationKind::Write, this.target(peer, (address, key), context), list, count)
}

extern "C" fn writemsg(endpoint: EpArg<'_>, msg: &MsgRma<'_>, flags: u64) -> Ssize {
    FidEp::of(endpoint).access_msg(OperationKind::Write, msg, flags)
}

extern "C" fn inject(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    peer: FiAddr,
    address: u64,
    key: u64,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let target = RmaTarget {
        quiet: true,
        inject: true,
        ..this.target(peer, (address, key), ptr::null_mut())
    };
    this.access(OperationKind::Write, target, &UserBuffer::one(base, length))
}

extern "C" fn writedata(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    data: u64,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let target = RmaTarget { data: Some(data), ..this.target(peer, (address, key), context) };
    this.access(OperationKind::Write, target, &UserBuffer::one(base, length))
}

extern "C" fn injectdata(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    data: u64,
    peer: FiAddr,
    address: u64,
    key: u64,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let target = this.target(peer, (address, key), ptr::null_mut());
    let target = RmaTarget { data: Some(data), quiet: true, inject: true, ..target };
    this.access(OperationKind::Write, target, &UserBuffer::one(base, length))
}
