//! Messages without tags.

use core::ffi::c_void;

use super::Endpoint;
use super::tagged::Outward;
use crate::abi::{FiAddr, Fid, IoVec, Msg, OpsMsg, Ssize, flag};
use crate::buffer::Buffer;
use crate::matching::Pattern;
use crate::object::Object;
use crate::traffic::{Lane, Receive};

static OPS: OpsMsg = OpsMsg {
    size: size_of::<OpsMsg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

pub(super) fn ops() -> *const OpsMsg {
    &raw const OPS
}

impl Endpoint {
    /// # Safety
    ///
    /// The buffer is the user's until the completion.
    #[inline(always)]
    unsafe fn receive_msg(
        &self,
        buffer: Buffer,
        source: FiAddr,
        flags: u64,
        context: *mut c_void,
    ) -> Ssize {
        let source = match self.source(source) {
            Ok(source) => source,
            Err(error) => return error,
        };
        let multi = flags & flag::MULTI_RECV != 0;
        let receive = Receive::new(buffer, context, self.rx.quiet(flags), multi);
        let pattern = Pattern { source, tag: 0, ignore: u64::MAX };
        // SAFETY: by the contract.
        unsafe { self.receive(Lane::Msg, pattern, receive) }
    }
}

unsafe extern "C" fn recv(
    endpoint: *mut Fid,
    base: *mut c_void,
    length: usize,
    _desc: *mut c_void,
    source: FiAddr,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        this.receive_msg(Buffer::one(base, length), source, this.rx.op_flags.get(), context)
    }
}

unsafe extern "C" fn recvv(
    endpoint: *mut Fid,
    list: *const IoVec,
    _desc: *mut *mut c_void,
    count: usize,
    source: FiAddr,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        match Buffer::list(list, count) {
            Ok(buffer) => this.receive_msg(buffer, source, this.rx.op_flags.get(), context),
            Err(error) => error,
        }
    }
}

unsafe extern "C" fn recvmsg(endpoint: *mut Fid, msg: *const Msg, flags: u64) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let (this, msg) = (Endpoint::of(endpoint), &*msg);
        match Buffer::list(msg.msg_iov, msg.iov_count) {
            Ok(buffer) => this.receive_msg(buffer, msg.addr, flags, msg.context),
            Err(error) => error,
        }
    }
}

unsafe extern "C" fn send(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    _desc: *mut c_void,
    destination: FiAddr,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let outward = Outward { context, ..Outward::new(this, Lane::Msg, destination) };
        this.send_one(outward, base, length)
    }
}

unsafe extern "C" fn sendv(
    endpoint: *mut Fid,
    list: *const IoVec,
    _desc: *mut *mut c_void,
    count: usize,
    destination: FiAddr,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let outward = Outward { context, ..Outward::new(this, Lane::Msg, destination) };
        this.send_list(outward, (list, count))
    }
}

unsafe extern "C" fn sendmsg(endpoint: *mut Fid, msg: *const Msg, flags: u64) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let (this, msg) = (Endpoint::of(endpoint), &*msg);
        let outward = Outward {
            data: (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data),
            context: msg.context,
            ..Outward::flagged(this, Lane::Msg, msg.addr, flags)
        };
        this.send_list(outward, (msg.msg_iov, msg.iov_count))
    }
}

unsafe extern "C" fn inject(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    destination: FiAddr,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        this.send_one(Outward::injected(Lane::Msg, destination), base, length)
    }
}

unsafe extern "C" fn senddata(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    _desc: *mut c_void,
    data: u64,
    destination: FiAddr,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let data = Some(data);
        let outward = Outward { context, data, ..Outward::new(this, Lane::Msg, destination) };
        this.send_one(outward, base, length)
    }
}

unsafe extern "C" fn injectdata(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    data: u64,
    destination: FiAddr,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let outward = Outward { data: Some(data), ..Outward::injected(Lane::Msg, destination) };
        this.send_one(outward, base, length)
    }
}
