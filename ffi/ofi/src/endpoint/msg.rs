//! Messages without tags.

use core::ffi::c_void;

use strait_core::matching::MaskedPattern;

use super::fid_ep::FidEp;
use crate::abi::{EpArg, FiAddr, IoVec, LengthArg, ListArg, MemoryArg, Msg, OpsMsg, Ssize, flag};
use crate::buffer::UserBuffer;
use crate::object::Object;
use crate::traffic::{MessageClass, PendingReceive, SendOp};

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

impl FidEp {
    #[inline(always)]
    fn receive_msg(
        &self,
        buffer: UserBuffer,
        source: FiAddr,
        flags: u64,
        context: *mut c_void,
    ) -> Ssize {
        let source = match self.source(source) {
            Ok(source) => source,
            Err(error) => return error,
        };
        let multi = flags & flag::MULTI_RECV != 0;
        let receive = PendingReceive::new(buffer, context, self.rx.quiet(flags), multi);
        let pattern = MaskedPattern { source, tag: 0, ignore: u64::MAX };
        self.receive(MessageClass::Msg, pattern, receive)
    }
}

extern "C" fn recv(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    source: FiAddr,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    this.receive_msg(UserBuffer::one(base, length), source, this.rx.op_flags.get(), context)
}

extern "C" fn recvv(
    endpoint: EpArg<'_>,
    list: ListArg<'_, IoVec>,
    _desc: *mut *mut c_void,
    count: LengthArg,
    source: FiAddr,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    match UserBuffer::list(list, count) {
        Ok(buffer) => this.receive_msg(buffer, source, this.rx.op_flags.get(), context),
        Err(error) => error,
    }
}

extern "C" fn recvmsg(endpoint: EpArg<'_>, msg: &Msg<'_>, flags: u64) -> Ssize {
    let this = FidEp::of(endpoint);
    match UserBuffer::list(msg.msg_iov, msg.iov_count) {
        Ok(buffer) => this.receive_msg(buffer, msg.addr, flags, msg.context),
        Err(error) => error,
    }
}

extern "C" fn send(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    destination: FiAddr,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let op = SendOp { context, ..this.send_op(MessageClass::Msg) };
    this.send_one(destination, op, base, length)
}

extern "C" fn sendv(
    endpoint: EpArg<'_>,
    list: ListArg<'_, IoVec>,
    _desc: *mut *mut c_void,
    count: LengthArg,
    destination: FiAddr,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let op = SendOp { context, ..this.send_op(MessageClass::Msg) };
    this.send_list(destination, op, list, count)
}

extern "C" fn sendmsg(endpoint: EpArg<'_>, msg: &Msg<'_>, flags: u64) -> Ssize {
    let this = FidEp::of(endpoint);
    let op = SendOp {
        data: (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data),
        context: msg.context,
        ..this.flagged_op(MessageClass::Msg, flags)
    };
    this.send_list(msg.addr, op, msg.msg_iov, msg.iov_count)
}

extern "C" fn inject(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    destination: FiAddr,
) -> Ssize {
    let this = FidEp::of(endpoint);
    this.send_one(destination, SendOp::injected(MessageClass::Msg), base, length)
}

extern "C" fn senddata(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    data: u64,
    destination: FiAddr,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let data = Some(data);
    let op = SendOp { context, data, ..this.send_op(MessageClass::Msg) };
    this.send_one(destination, op, base, length)
}

extern "C" fn injectdata(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    data: u64,
    destination: FiAddr,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let op = SendOp { data: Some(data), ..SendOp::injected(MessageClass::Msg) };
    this.send_one(destination, op, base, length)
}
