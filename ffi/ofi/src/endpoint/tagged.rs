//! Messages with tags.

use core::ffi::c_void;

use strait_core::matching::MaskedPattern;

use super::fid_ep::FidEp;
use crate::abi::{
    EpArg, FiAddr, IoVec, LengthArg, ListArg, MemoryArg, MsgTagged, OpsTagged, Ssize, flag,
};
use crate::buffer::UserBuffer;
use crate::object::{Object, aside};
use crate::traffic::{ASKS_FROM, LINE_BODY, Look, MessageClass, PendingReceive, Plain, SendOp};

static OPS: OpsTagged = OpsTagged {
    size: size_of::<OpsTagged>(),
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

pub(super) fn ops() -> *const OpsTagged {
    &raw const OPS
}

impl FidEp {
    /// Returns the send of a call without flags.
    #[inline(always)]
    pub(super) fn send_op(&self, lane: MessageClass) -> SendOp {
        self.flagged_op(lane, self.tx.op_flags.get())
    }

    /// Returns the send of a call with flags.
    #[inline(always)]
    pub(super) fn flagged_op(&self, lane: MessageClass, flags: u64) -> SendOp {
        SendOp::flagged(lane, flags, self.tx.quiet(flags))
    }

    /// Sends a buffer of one part.
    #[inline(always)]
    pub(super) fn send_one(
        &self,
        destination: FiAddr,
        op: SendOp,
        base: MemoryArg,
        length: LengthArg,
    ) -> Ssize {
        if length.get() <= LINE_BODY
            && !op.delivery
            && self.is_mine_alone()
            && let Ok(rank) = self.rank(destination)
        {
            let mut traffic = self.traffic.borrow_mut();
            let body = base.as_ptr().cast_const().cast();
            // SAFETY: the user's memory has this many bytes.
            if unsafe { traffic.send_line(rank, &op, body, length.get()) } {
                return 0;
            }
        }
        aside(move || self.send(destination, op, UserBuffer::one(base, length)))
    }

    /// Sends a list of parts.
    pub(super) fn send_list(
        &self,
        destination: FiAddr,
        op: SendOp,
        list: ListArg<'_, IoVec>,
        count: LengthArg,
    ) -> Ssize {
        match UserBuffer::list(list, count) {
            Ok(buffer) => self.send(destination, op, buffer),
            Err(error) => error,
        }
    }

    fn send(&self, destination: FiAddr, op: SendOp, buffer: UserBuffer) -> Ssize {
        let rank = match self.rank(destination) {
            Ok(rank) => rank,
            Err(error) => return error,
        };
        self.with(|traffic| traffic.send(rank, op, buffer))
    }

    #[inline(always)]
    fn receive_tagged(
        &self,
        buffer: UserBuffer,
        source: FiAddr,
        (tag, ignore): (u64, u64),
        flags: u64,
        context: *mut c_void,
    ) -> Ssize {
        let source = match self.source(source) {
            Ok(source) => source,
            Err(error) => return error,
        };
        let pattern = MaskedPattern { source, tag, ignore };
        let multi = flags & flag::MULTI_RECV != 0;
        let quiet = self.rx.quiet(flags);
        if self.is_mine_alone()
            && !multi
            && let Some(part) = buffer.only_part()
            && part.length() < ASKS_FROM
        {
            let mut traffic = self.traffic.borrow_mut();
            if traffic.may_post(MessageClass::Tagged, source) {
                let receive = Plain { part, context, quiet };
                return traffic.post_plain(MessageClass::Tagged, pattern, receive);
            }
        }
        aside(move || {
            let receive = PendingReceive::new(buffer, context, quiet, multi);
            self.receive(MessageClass::Tagged, pattern, receive)
        })
    }

    pub(super) fn receive(
        &self,
        lane: MessageClass,
        pattern: MaskedPattern,
        receive: PendingReceive,
    ) -> Ssize {
        self.with(|traffic| traffic.receive(lane, pattern, receive))
    }

    /// Probes for a message, or receives the message that a probe has claimed.
    fn look_tagged(&self, msg: &MsgTagged<'_>, buffer: UserBuffer, flags: u64) -> Ssize {
        let source = match self.source(msg.addr) {
            Ok(source) => source,
            Err(error) => return error,
        };
        let (context, lane) = (msg.context, MessageClass::Tagged);
        let pattern = MaskedPattern { source, tag: msg.tag, ignore: msg.ignore };
        self.with(|traffic| {
            if flags & flag::PEEK != 0 {
                let look = match (flags & flag::CLAIM != 0, flags & flag::DISCARD != 0) {
                    (_, true) => Look::Discard,
                    (true, false) => Look::Claim,
                    (false, false) => Look::Peek,
                };
                traffic.look(lane, pattern, look, context);
                return 0;
            }
            if flags & flag::DISCARD != 0 {
                return traffic.discard_claimed(lane, context);
            }
            let receive = PendingReceive::new(buffer, context, self.rx.quiet(flags), false);
            traffic.receive_claimed(lane, receive)
        })
    }
}

extern "C" fn recv(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    source: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let flags = this.rx.op_flags.get();
    this.receive_tagged(UserBuffer::one(base, length), source, (tag, ignore), flags, context)
}

extern "C" fn recvv(
    endpoint: EpArg<'_>,
    list: ListArg<'_, IoVec>,
    _desc: *mut *mut c_void,
    count: LengthArg,
    source: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let flags = this.rx.op_flags.get();
    match UserBuffer::list(list, count) {
        Ok(buffer) => this.receive_tagged(buffer, source, (tag, ignore), flags, context),
        Err(error) => error,
    }
}

extern "C" fn recvmsg(endpoint: EpArg<'_>, msg: &MsgTagged<'_>, flags: u64) -> Ssize {
    let this = FidEp::of(endpoint);
    let buffer = match UserBuffer::list(msg.msg_iov, msg.iov_count) {
        Ok(buffer) => buffer,
        Err(error) => return error,
    };
    if flags & (flag::PEEK | flag::CLAIM) != 0 {
        return this.look_tagged(msg, buffer, flags);
    }
    this.receive_tagged(buffer, msg.addr, (msg.tag, msg.ignore), flags, msg.context)
}

extern "C" fn send(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    destination: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let op = SendOp { tag, context, ..this.send_op(MessageClass::Tagged) };
    this.send_one(destination, op, base, length)
}

extern "C" fn sendv(
    endpoint: EpArg<'_>,
    list: ListArg<'_, IoVec>,
    _desc: *mut *mut c_void,
    count: LengthArg,
    destination: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let op = SendOp { tag, context, ..this.send_op(MessageClass::Tagged) };
    this.send_list(destination, op, list, count)
}

extern "C" fn sendmsg(endpoint: EpArg<'_>, msg: &MsgTagged<'_>, flags: u64) -> Ssize {
    let this = FidEp::of(endpoint);
    let op = SendOp {
        tag: msg.tag,
        data: (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data),
        context: msg.context,
        ..this.flagged_op(MessageClass::Tagged, flags)
    };
    this.send_list(msg.addr, op, msg.msg_iov, msg.iov_count)
}

extern "C" fn inject(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    destination: FiAddr,
    tag: u64,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let op = SendOp { tag, ..SendOp::injected(MessageClass::Tagged) };
    this.send_one(destination, op, base, length)
}

extern "C" fn senddata(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    _desc: *mut c_void,
    data: u64,
    destination: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let data = Some(data);
    let op = SendOp { tag, data, context, ..this.send_op(MessageClass::Tagged) };
    this.send_one(destination, op, base, length)
}

extern "C" fn injectdata(
    endpoint: EpArg<'_>,
    base: MemoryArg,
    length: LengthArg,
    data: u64,
    destination: FiAddr,
    tag: u64,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let data = Some(data);
    let op = SendOp { tag, data, ..SendOp::injected(MessageClass::Tagged) };
    this.send_one(destination, op, base, length)
}
