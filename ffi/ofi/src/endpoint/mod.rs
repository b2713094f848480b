//! An endpoint: a rank of the universe, and the functions that libfabric calls on it.

mod atomic;
mod fid_ep;
mod msg;
mod rma;
mod tagged;

use core::ffi::{c_int, c_void};

use strait::port::Port;

use crate::abi::{
    DomainArg, EpArg, FiInfo, FiStatus, LengthArg, MemoryArg, NewArg, OpsCm, OpsEp, RoomArg, Ssize,
    absent, errno,
};
use crate::cause::failed;
use crate::domain::Domain;
use crate::object::{self, Object};
use crate::traffic::Traffic;
pub(crate) use fid_ep::FidEp;
use fid_ep::Tables;

static OPS: OpsEp = OpsEp {
    size: size_of::<OpsEp>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: absent,
    rx_ctx: absent,
    rx_size_left: absent,
    tx_size_left: absent,
};

static CM: OpsCm = OpsCm {
    size: size_of::<OpsCm>(),
    setname: absent,
    getname,
    getpeer: absent,
    connect: absent,
    listen: absent,
    accept: absent,
    reject: absent,
    shutdown: absent,
    join: absent,
};

/// Opens an endpoint in `domain`, for `fi_endpoint`: claims a rank.
pub(crate) extern "C" fn open(
    domain: DomainArg<'_>,
    info: Option<&FiInfo>,
    endpoint: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let domain = Domain::keep(domain);
    let opened = Port::open(domain.universe());
    let traffic = match opened.and_then(|port| Traffic::new(port, domain)) {
        Ok(traffic) => traffic,
        Err(error) => return failed(&error),
    };
    let tables = Tables {
        ops: &raw const OPS,
        cm: &raw const CM,
        msg: msg::ops(),
        rma: rma::ops(),
        tagged: tagged::ops(),
        atomic: atomic::ops(),
    };
    let made = FidEp::new(object::fid::<FidEp>(context), tables, domain, traffic, info);
    object::hand_out_if(made, endpoint, FidEp::enter_domain)
}

extern "C" fn getname(endpoint: EpArg<'_>, name: MemoryArg, length: RoomArg<'_>) -> FiStatus {
    let whole = length.fill(name, &FidEp::of(endpoint).name().bytes());
    if whole { 0 } else { -errno::ETOOSMALL }
}

extern "C" fn cancel(endpoint: EpArg<'_>, context: *mut c_void) -> Ssize {
    FidEp::of(endpoint).with(|traffic| traffic.cancel(context))
}

/// `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: c_int = 0;

/// `FI_OPT_CM_DATA_SIZE`.
const CM_DATA_SIZE: c_int = 1;

extern "C" fn getopt(
    endpoint: EpArg<'_>,
    _level: c_int,
    option: c_int,
    value: MemoryArg,
    length: RoomArg<'_>,
) -> FiStatus {
    let found = match option {
        MIN_MULTI_RECV => FidEp::of(endpoint).traffic.borrow().min_multi,
        CM_DATA_SIZE => 0,
        _ => return -errno::ENOSYS,
    };
    if length.fill_whole(value, &found.to_ne_bytes()) { 0 } else { -errno::ETOOSMALL }
}

extern "C" fn setopt(
    endpoint: EpArg<'_>,
    _level: c_int,
    option: c_int,
    value: MemoryArg,
    length: LengthArg,
) -> FiStatus {
    if option != MIN_MULTI_RECV {
        return -errno::ENOSYS;
    }
    let Some(bytes) = value.read(length) else { return -errno::ENOSYS };
    FidEp::of(endpoint).traffic.borrow_mut().min_multi = bytes;
    0
}
