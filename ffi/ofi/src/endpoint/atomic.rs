//! Atomic operations on remote memory.

use core::ffi::c_void;
use core::{ptr, slice};

use super::Endpoint;
use crate::abi::{FiAddr, Fid, Ioc, MsgAtomic, OpsAtomic, Ssize, Status, absent, errno};
use crate::numbers::{Form, element_bytes};
use crate::object::Object;
use crate::traffic::{ATOMIC_MAX, Atomic};

static OPS: OpsAtomic = OpsAtomic {
    size: size_of::<OpsAtomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev: absent,
    readwritemsg,
    compwrite,
    compwritev: absent,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

pub(super) fn ops() -> *const OpsAtomic {
    &raw const OPS
}

/// What a call wants done.
#[derive(Clone, Copy, Debug)]
struct Wish<'a> {
    form: Form,
    datatype: u32,
    operator: u32,
    peer: FiAddr,
    address: u64,
    key: u64,
    context: *mut c_void,
    quiet: bool,
    operands: &'a [Ioc],
    compare: &'a [Ioc],
    result: &'a [Ioc],
}

impl Endpoint {
    /// # Safety
    ///
    /// The lists point to elements of the operation's type, which are the user's until the completion.
    unsafe fn atomic(&self, wish: Wish<'_>) -> Ssize {
        let rank = match self.rank(wish.peer) {
            Ok(rank) => rank,
            Err(error) => return error,
        };
        let Wish { form, datatype, operator, address, key, context, quiet, .. } = wish;
        let atomic = Atomic { form, datatype, operator, rank, address, key, context, quiet };
        // A read has no operands, and may say so.
        let counted = if wish.operands.is_empty() { wish.result } else { wish.operands };
        let count = counted.iter().map(|ioc| ioc.count).sum();
        let operands = [wish.operands, wish.compare];
        // SAFETY: by the contract.
        self.with(|traffic| unsafe { traffic.begin_atomic(atomic, count, operands, wish.result) })
    }

    /// By a call without flags, and without what not all have.
    fn wish(&self, form: Form, (peer, address, key): (FiAddr, u64, u64)) -> Wish<'static> {
        let quiet = self.tx.quiet(self.tx.op_flags.get());
        let context = ptr::null_mut();
        let (datatype, operator) = (0, 0);
        let (operands, compare, result) = (&[][..], &[][..], &[][..]);
        Wish {
            form,
            datatype,
            operator,
            peer,
            address,
            key,
            context,
            quiet,
            operands,
            compare,
            result,
        }
    }

    /// What a message of libfabric's says; `None` for more than one target.
    ///
    /// # Safety
    ///
    /// libfabric's, of the message.
    unsafe fn wish_of(&self, form: Form, msg: &MsgAtomic, flags: u64) -> Option<Wish<'static>> {
        if msg.rma_iov_count != 1 {
            return None;
        }
        // SAFETY: by the contract.
        let (target, operands) = unsafe { (&*msg.rma_iov, list(msg.msg_iov, msg.iov_count)) };
        Some(Wish {
            datatype: msg.datatype,
            operator: msg.op,
            context: msg.context,
            quiet: self.tx.quiet(flags),
            operands,
            ..self.wish(form, (msg.addr, target.addr, target.key))
        })
    }
}

/// A list that may be empty and null.
///
/// # Safety
///
/// It has `count` entries.
unsafe fn list<'a>(list: *const Ioc, count: usize) -> &'a [Ioc] {
    // SAFETY: by the contract.
    if list.is_null() { &[] } else { unsafe { slice::from_raw_parts(list, count) } }
}

unsafe extern "C" fn write(
    endpoint: *mut Fid,
    operand: *const c_void,
    count: usize,
    _desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
    context: *mut c_void,
) -> Ssize {
    let operands = &[Ioc { addr: operand.cast_mut(), count }];
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let wish = this.wish(Form::Write, (peer, address, key));
        this.atomic(Wish { datatype, operator, context, operands, ..wish })
    }
}

unsafe extern "C" fn writev(
    endpoint: *mut Fid,
    operands: *const Ioc,
    _desc: *mut *mut c_void,
    count: usize,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
    context: *mut c_void,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let (this, operands) = (Endpoint::of(endpoint), list(operands, count));
        let wish = this.wish(Form::Write, (peer, address, key));
        this.atomic(Wish { datatype, operator, context, operands, ..wish })
    }
}

unsafe extern "C" fn writemsg(endpoint: *mut Fid, msg: *const MsgAtomic, flags: u64) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        match this.wish_of(Form::Write, &*msg, flags) {
            Some(wish) => this.atomic(wish),
            None => -(errno::EINVAL as Ssize),
        }
    }
}

unsafe extern "C" fn inject(
    endpoint: *mut Fid,
    operand: *const c_void,
    count: usize,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
) -> Ssize {
    let operands = &[Ioc { addr: operand.cast_mut(), count }];
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let wish = this.wish(Form::Write, (peer, address, key));
        this.atomic(Wish { datatype, operator, quiet: true, operands, ..wish })
    }
}

unsafe extern "C" fn readwrite(
    endpoint: *mut Fid,
    operand: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
    context: *mut c_void,
) -> Ssize {
    let operands = &[Ioc { addr: operand.cast_mut(), count }];
    let result = &[Ioc { addr: result, count }];
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let wish = this.wish(Form::Fetch, (peer, address, key));
        this.atomic(Wish { datatype, operator, context, operands, result, ..wish })
    }
}

unsafe extern "C" fn readwritemsg(
    endpoint: *mut Fid,
    msg: *const MsgAtomic,
    result: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let (this, result) = (Endpoint::of(endpoint), list(result, result_count));
        match this.wish_of(Form::Fetch, &*msg, flags) {
            Some(wish) => this.atomic(Wish { result, ..wish }),
            None => -(errno::EINVAL as Ssize),
        }
    }
}

unsafe extern "C" fn compwrite(
    endpoint: *mut Fid,
    operand: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
    context: *mut c_void,
) -> Ssize {
    let operands = &[Ioc { addr: operand.cast_mut(), count }];
    let compare = &[Ioc { addr: compare.cast_mut(), count }];
    let result = &[Ioc { addr: result, count }];
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let wish = this.wish(Form::Compare, (peer, address, key));
        this.atomic(Wish { datatype, operator, context, operands, compare, result, ..wish })
    }
}

unsafe extern "C" fn compwritemsg(
    endpoint: *mut Fid,
    msg: *const MsgAtomic,
    compare: *const Ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe {
        let this = Endpoint::of(endpoint);
        let (compare, result) = (list(compare, compare_count), list(result, result_count));
        match this.wish_of(Form::Compare, &*msg, flags) {
            Some(wish) => this.atomic(Wish { compare, result, ..wish }),
            None => -(errno::EINVAL as Ssize),
        }
    }
}

/// How many elements an operation may have, which goes to `count`.
///
/// # Safety
///
/// `count` is null or may be written.
unsafe fn valid(form: Form, datatype: u32, operator: u32, count: *mut usize) -> Status {
    let Some(size) = element_bytes(datatype, operator, form) else { return -errno::EOPNOTSUPP };
    // SAFETY: by the contract.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = ATOMIC_MAX / size;
    }
    0
}

unsafe extern "C" fn writevalid(_: *mut Fid, datatype: u32, op: u32, count: *mut usize) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { valid(Form::Write, datatype, op, count) }
}

unsafe extern "C" fn readwritevalid(
    _: *mut Fid,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { valid(Form::Fetch, datatype, op, count) }
}

unsafe extern "C" fn compwritevalid(
    _: *mut Fid,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { valid(Form::Compare, datatype, op, count) }
}
