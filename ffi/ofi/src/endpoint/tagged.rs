//! Messages with tags.

use core::ffi::c_void;
use core::ptr;

use super::Endpoint;
use crate::abi::{FiAddr, Fid, IoVec, MsgTagged, OpsTagged, Ssize, flag};
use crate::buffer::Buffer;
use crate::matching::Pattern;
use crate::object::{Object, aside};
use crate::traffic::{How, LINE_BODY, Lane, Look, Receive};

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

/// A message that a call wants sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outward {
    pub(super) lane: Lane,
    pub(super) destination: FiAddr,
    pub(super) tag: u64,
    pub(super) data: Option<u64>,
    pub(super) context: *mut c_void,
    pub(super) quiet: bool,
    pub(super) inject: bool,
    pub(super) delivery: bool,
    /// And when a receive has accepted it.
    pub(super) matched: bool,
}

/// Whether flags ask that an operation is over when it is done at the peer's.
const fn delivery(flags: u64) -> bool {
    flags & (flag::DELIVERY_COMPLETE | flag::MATCH_COMPLETE) != 0
}

impl Outward {
    /// By a call without flags.
    #[inline(always)]
    pub(super) fn new(endpoint: &Endpoint, lane: Lane, destination: FiAddr) -> Self {
        Self::flagged(endpoint, lane, destination, endpoint.tx.op_flags.get())
    }

    /// By a call with flags.
    #[inline(always)]
    pub(super) fn flagged(
        endpoint: &Endpoint,
        lane: Lane,
        destination: FiAddr,
        flags: u64,
    ) -> Self {
        Self {
            quiet: endpoint.tx.quiet(flags),
            inject: flags & flag::INJECT != 0,
            delivery: delivery(flags),
            matched: flags & flag::MATCH_COMPLETE != 0,
            ..Self::injected(lane, destination)
        }
    }

    /// By a call whose end nobody hears of.
    #[inline(always)]
    pub(super) const fn injected(lane: Lane, destination: FiAddr) -> Self {
        Self {
            lane,
            destination,
            tag: 0,
            data: None,
            context: ptr::null_mut(),
            quiet: true,
            inject: true,
            delivery: false,
            matched: false,
        }
    }
}

impl Outward {
    /// As its endpoint's messages have it.
    #[inline(always)]
    const fn how(self, rank: u32) -> How {
        let Self { lane, tag, data, context, quiet, inject, delivery, matched, .. } = self;
        How { lane, tag, data, context, quiet, inject, delivery, matched, rank }
    }
}

impl Endpoint {
    /// Sends a buffer of one part.
    ///
    /// # Safety
    ///
    /// The buffer is the user's until the completion, or until this returns if `outward` says inject.
    #[inline(always)]
    pub(super) unsafe fn send_one(
        &self,
        outward: Outward,
        base: *const c_void,
        length: usize,
    ) -> Ssize {
        if length <= LINE_BODY
            && !outward.delivery
            && self.is_mine_alone()
            && let Ok(rank) = self.rank(outward.destination)
        {
            let mut traffic = self.traffic.borrow_mut();
            let Outward { lane, tag, data, .. } = outward;
            // SAFETY: by the contract.
            if unsafe { traffic.send_line((lane, rank), (tag, data), base.cast(), length) } {
                traffic.sent(&outward.how(rank), None);
                return 0;
            }
        }
        // SAFETY: by the contract.
        aside(move || unsafe { self.send(outward, Buffer::one(base, length)) })
    }

    /// Sends a list of parts, so many.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::send_one`], of the list and each part.
    pub(super) unsafe fn send_list(
        &self,
        outward: Outward,
        (list, count): (*const IoVec, usize),
    ) -> Ssize {
        // SAFETY: by the contract.
        unsafe {
            match Buffer::list(list, count) {
                Ok(buffer) => self.send(outward, buffer),
                Err(error) => error,
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Endpoint::send_one`].
    unsafe fn send(&self, outward: Outward, buffer: Buffer) -> Ssize {
        let rank = match self.rank(outward.destination) {
            Ok(rank) => rank,
            Err(error) => return error,
        };
        // SAFETY: by the contract.
        self.with(|traffic| unsafe { traffic.send(outward.how(rank), buffer) })
    }

    /// # Safety
    ///
    /// The buffer is the user's until the completion.
    #[inline(always)]
    unsafe fn receive_tagged(
        &self,
        buffer: Buffer,
        source: FiAddr,
        (tag, ignore): (u64, u64),
        flags: u64,
        context: *mut c_void,
    ) -> Ssize {
        let source = match self.source(source) {
            Ok(source) => source,
            Err(error) => return error,
        };
        let pattern = Pattern { source, tag, ignore };
        let multi = flags & flag::MULTI_RECV != 0;
        let receive = Receive::new(buffer, context, self.rx.quiet(flags), multi);
        if self.is_mine_alone() && !multi {
            let mut traffic = self.traffic.borrow_mut();
            if traffic.may_post(Lane::Tagged, source) {
                traffic.post(Lane::Tagged, pattern, receive);
                return 0;
            }
        }
        // SAFETY: by the contract.
        aside(move || unsafe { self.receive(Lane::Tagged, pattern, receive) })
    }

    /// # Safety
    ///
    /// The buffer is the user's until the completion.
    pub(super) unsafe fn receive(&self, lane: Lane, pattern: Pattern, receive: Receive) -> Ssize {
        self.with(|traffic| {
            // SAFETY: by the contract.
            unsafe { traffic.receive(lane, pattern, receive) };
            0
        })
    }

    /// Looks for a message, or takes the one that was found.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::receive_tagged`].
    unsafe fn look_tagged(&self, msg: &MsgTagged, buffer: Buffer, flags: u64) -> Ssize {
        let source = match self.source(msg.addr) {
            Ok(source) => source,
            Err(error) => return error,
        };
        let (context, lane) = (msg.context, Lane::Tagged);
        let pattern = Pattern { source, tag: msg.tag, ignore: msg.ignore };
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
            let receive = Receive::new(buffer, context, self.rx.quiet(flags), false);
            // SAFETY: by the contract.
            unsafe { traffic.receive_claimed(lane, receive) }
        })
    }
}

unsafe extern "C" fn recv(
    endpoint: *mut Fid,
    base: *mut c_void,
    length: usize,
    _desc: *mut c_void,
    source: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let flags = this.rx.op_flags.get();
        this.receive_tagged(Buffer::one(base, length), source, (tag, ignore), flags, context)
    }
}

unsafe extern "C" fn recvv(
    endpoint: *mut Fid,
    list: *const IoVec,
    _desc: *mut *mut c_void,
    count: usize,
    source: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let flags = this.rx.op_flags.get();
        match Buffer::list(list, count) {
            Ok(buffer) => this.receive_tagged(buffer, source, (tag, ignore), flags, context),
            Err(error) => error,
        }
    }
}

unsafe extern "C" fn recvmsg(endpoint: *mut Fid, msg: *const MsgTagged, flags: u64) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let (this, msg) = (Endpoint::of(endpoint), &*msg);
        let buffer = match Buffer::list(msg.msg_iov, msg.iov_count) {
            Ok(buffer) => buffer,
            Err(error) => return error,
        };
        if flags & (flag::PEEK | flag::CLAIM) != 0 {
            return this.look_tagged(msg, buffer, flags);
        }
        this.receive_tagged(buffer, msg.addr, (msg.tag, msg.ignore), flags, msg.context)
    }
}

unsafe extern "C" fn send(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    _desc: *mut c_void,
    destination: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let outward = Outward { tag, context, ..Outward::new(this, Lane::Tagged, destination) };
        this.send_one(outward, base, length)
    }
}

unsafe extern "C" fn sendv(
    endpoint: *mut Fid,
    list: *const IoVec,
    _desc: *mut *mut c_void,
    count: usize,
    destination: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let outward = Outward { tag, context, ..Outward::new(this, Lane::Tagged, destination) };
        this.send_list(outward, (list, count))
    }
}

unsafe extern "C" fn sendmsg(endpoint: *mut Fid, msg: *const MsgTagged, flags: u64) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let (this, msg) = (Endpoint::of(endpoint), &*msg);
        let outward = Outward {
            tag: msg.tag,
            data: (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data),
            context: msg.context,
            ..Outward::flagged(this, Lane::Tagged, msg.addr, flags)
        };
        this.send_list(outward, (msg.msg_iov, msg.iov_count))
    }
}

unsafe extern "C" fn inject(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    destination: FiAddr,
    tag: u64,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let outward = Outward { tag, ..Outward::injected(Lane::Tagged, destination) };
        this.send_one(outward, base, length)
    }
}

unsafe extern "C" fn senddata(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    _desc: *mut c_void,
    data: u64,
    destination: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let data = Some(data);
        let outward =
            Outward { tag, data, context, ..Outward::new(this, Lane::Tagged, destination) };
        this.send_one(outward, base, length)
    }
}

unsafe extern "C" fn injectdata(
    endpoint: *mut Fid,
    base: *const c_void,
    length: usize,
    data: u64,
    destination: FiAddr,
    tag: u64,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let data = Some(data);
        let outward = Outward { tag, data, ..Outward::injected(Lane::Tagged, destination) };
        this.send_one(outward, base, length)
    }
}
