//! Atomic operations on remote memory.

use core::ffi::c_void;
use core::ptr;

use super::fid_ep::FidEp;
use crate::abi::{
    AnswerArg, EpArg, FiAddr, FiStatus, Ioc, LengthArg, ListArg, MemoryArg, MsgAtomic, OpsAtomic,
    Ssize, absent, errno,
};
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

/// The request of a call.
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

impl FidEp {
    fn atomic(&self, wish: Wish<'_>) -> Ssize {
        let rank = match self.rank(wish.peer) {
            Ok(rank) => rank,
            Err(error) => return error,
        };
        let Wish { form, datatype, operator, address, key, context, quiet, .. } = wish;
        let atomic = Atomic { form, datatype, operator, rank, address, key, context, quiet };
        // A read has no operands, and the caller may pass none.
        let counted = if wish.operands.is_empty() { wish.result } else { wish.operands };
        let count = counted.iter().map(|ioc| ioc.count.get()).sum();
        let operands = [wish.operands, wish.compare];
        self.with(|traffic| traffic.begin_atomic(atomic, count, operands, wish.result))
    }

    /// Returns the request of a call without flags. Fields that not all calls have are empty.
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

    /// Returns the request in a message of libfabric, or `None` if it has more than one target.
    fn wish_of<'call>(
        &self,
        form: Form,
        msg: &MsgAtomic<'call>,
        flags: u64,
    ) -> Option<Wish<'call>> {
        let [target] = msg.rma_iov.slice(msg.rma_iov_count) else { return None };
        let operands = msg.msg_iov.slice(msg.iov_count);
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

/// Returns the elements at one address.
fn elements(addr: MemoryArg, count: LengthArg) -> [Ioc; 1] {
    [Ioc { addr, count }]
}

extern "C" fn write(
    endpoint: EpArg<'_>,
    operand: MemoryArg,
    count: LengthArg,
    _desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
    context: *mut c_void,
) -> Ssize {
    let operands = &elements(operand, count);
    let this = FidEp::of(endpoint);
    let wish = this.wish(Form::Write, (peer, address, key));
    this.atomic(Wish { datatype, operator, context, operands, ..wish })
}

extern "C" fn writev(
    endpoint: EpArg<'_>,
    operands: ListArg<'_, Ioc>,
    _desc: *mut *mut c_void,
    count: LengthArg,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
    context: *mut c_void,
) -> Ssize {
    let (this, operands) = (FidEp::of(endpoint), operands.slice(count));
    let wish = this.wish(Form::Write, (peer, address, key));
    this.atomic(Wish { datatype, operator, context, operands, ..wish })
}

extern "C" fn writemsg(endpoint: EpArg<'_>, msg: &MsgAtomic<'_>, flags: u64) -> Ssize {
    let this = FidEp::of(endpoint);
    match this.wish_of(Form::Write, msg, flags) {
        Some(wish) => this.atomic(wish),
        None => -(errno::EINVAL as Ssize),
    }
}

extern "C" fn inject(
    endpoint: EpArg<'_>,
    operand: MemoryArg,
    count: LengthArg,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
) -> Ssize {
    let operands = &elements(operand, count);
    let this = FidEp::of(endpoint);
    let wish = this.wish(Form::Write, (peer, address, key));
    this.atomic(Wish { datatype, operator, quiet: true, operands, ..wish })
}

extern "C" fn readwrite(
    endpoint: EpArg<'_>,
    operand: MemoryArg,
    count: LengthArg,
    _desc: *mut c_void,
    result: MemoryArg,
    _result_desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
    context: *mut c_void,
) -> Ssize {
    let operands = &elements(operand, count);
    let result = &elements(result, count);
    let this = FidEp::of(endpoint);
    let wish = this.wish(Form::Fetch, (peer, address, key));
    this.atomic(Wish { datatype, operator, context, operands, result, ..wish })
}

extern "C" fn readwritemsg(
    endpoint: EpArg<'_>,
    msg: &MsgAtomic<'_>,
    result: ListArg<'_, Ioc>,
    _result_desc: *mut *mut c_void,
    result_count: LengthArg,
    flags: u64,
) -> Ssize {
    let (this, result) = (FidEp::of(endpoint), result.slice(result_count));
    match this.wish_of(Form::Fetch, msg, flags) {
        Some(wish) => this.atomic(Wish { result, ..wish }),
        None => -(errno::EINVAL as Ssize),
    }
}

extern "C" fn compwrite(
    endpoint: EpArg<'_>,
    operand: MemoryArg,
    count: LengthArg,
    _desc: *mut c_void,
    compare: MemoryArg,
    _compare_desc: *mut c_void,
    result: MemoryArg,
    _result_desc: *mut c_void,
    peer: FiAddr,
    address: u64,
    key: u64,
    datatype: u32,
    operator: u32,
    context: *mut c_void,
) -> Ssize {
    let operands = &elements(operand, count);
    let compare = &elements(compare, count);
    let result = &elements(result, count);
    let this = FidEp::of(endpoint);
    let wish = this.wish(Form::Compare, (peer, address, key));
    this.atomic(Wish { datatype, operator, context, operands, compare, result, ..wish })
}

extern "C" fn compwritemsg(
    endpoint: EpArg<'_>,
    msg: &MsgAtomic<'_>,
    compare: ListArg<'_, Ioc>,
    _compare_desc: *mut *mut c_void,
    compare_count: LengthArg,
    result: ListArg<'_, Ioc>,
    _result_desc: *mut *mut c_void,
    result_count: LengthArg,
    flags: u64,
) -> Ssize {
    let this = FidEp::of(endpoint);
    let (compare, result) = (compare.slice(compare_count), result.slice(result_count));
    match this.wish_of(Form::Compare, msg, flags) {
        Some(wish) => this.atomic(Wish { compare, result, ..wish }),
        None => -(errno::EINVAL as Ssize),
    }
}

/// Writes to `count` the maximum number of elements of an operation.
fn valid(form: Form, datatype: u32, operator: u32, count: AnswerArg<'_, usize>) -> FiStatus {
    let Some(size) = element_bytes(datatype, operator, form) else { return -errno::EOPNOTSUPP };
    count.write(ATOMIC_MAX / size);
    0
}

extern "C" fn writevalid(
    _: EpArg<'_>,
    datatype: u32,
    op: u32,
    count: AnswerArg<'_, usize>,
) -> FiStatus {
    valid(Form::Write, datatype, op, count)
}

extern "C" fn readwritevalid(
    _: EpArg<'_>,
    datatype: u32,
    op: u32,
    count: AnswerArg<'_, usize>,
) -> FiStatus {
    valid(Form::Fetch, datatype, op, count)
}

extern "C" fn compwritevalid(
    _: EpArg<'_>,
    datatype: u32,
    op: u32,
    count: AnswerArg<'_, usize>,
) -> FiStatus {
    valid(Form::Compare, datatype, op, count)
}
