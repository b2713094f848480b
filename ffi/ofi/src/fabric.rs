//! The fabric, and the domains that are opened in it.

use core::ffi::c_void;

use strait::boot::Universe;

use crate::abi::{
    API_VERSION, AnswerArg, AtomicAttr, DomainArg, FabricArg, FabricAttr, FabricFid, FiInfo,
    FiStatus, Fid, NewArg, OpsDomain, OpsFabric, absent, class, errno, flag,
};
use crate::cause::failed;
use crate::domain::Domain;
use crate::info::THREAD_DOMAIN;
use crate::numbers::{Form, element_bytes};
use crate::object::{self, Object};
use crate::traffic::ATOMIC_MAX;
use crate::{av, cntr, cq, endpoint, eq, mr};

/// The fabric. `struct fid_fabric`.
#[repr(C)]
struct FidFabric {
    fid: Fid,
    ops: *const OpsFabric,
    api_version: u32,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for FidFabric {
    type Class = FabricFid;
    const CLASS: usize = class::FABRIC;
}

static OPS: OpsFabric = OpsFabric {
    size: size_of::<OpsFabric>(),
    domain: open_domain,
    passive_ep: absent,
    eq_open: eq::open,
    wait_open: absent,
    trywait: absent,
    domain2: absent,
};

static DOMAIN_OPS: OpsDomain = OpsDomain {
    size: size_of::<OpsDomain>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: endpoint::open,
    scalable_ep: absent,
    cntr_open: cntr::open,
    poll_open: absent,
    stx_ctx: absent,
    srx_ctx: absent,
    query_atomic,
    query_collective: absent,
    endpoint2: absent,
};

/// Opens the fabric, for `fi_fabric`.
pub(crate) extern "C" fn open(
    attr: Option<&FabricAttr>,
    fabric: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let api_version = attr.map_or(API_VERSION, |attr| attr.api_version);
    let made =
        FidFabric { fid: object::fid::<FidFabric>(context), ops: &raw const OPS, api_version };
    object::hand_out(made, fabric)
}

/// Opens a domain, for `fi_domain`: joins the universe of this process's job.
extern "C" fn open_domain(
    fabric: FabricArg<'_>,
    info: Option<&FiInfo>,
    domain: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let universe = match Universe::of_job() {
        Ok(universe) => universe,
        Err(error) => return failed(&error),
    };
    let threading = info.and_then(|info| info.domain_attr.get()).map_or(0, |attr| attr.threading);
    let made = Domain::new(
        object::fid::<Domain>(context),
        (&raw const DOMAIN_OPS, mr::ops()),
        universe,
        FidFabric::of(fabric).api_version,
        threading != THREAD_DOMAIN,
    );
    object::hand_out(made, domain)
}

extern "C" fn query_atomic(
    _domain: DomainArg<'_>,
    datatype: u32,
    operation: u32,
    attr: AnswerArg<'_, AtomicAttr>,
    flags: u64,
) -> FiStatus {
    let form = match flags {
        0 => Form::Write,
        flag::FETCH_ATOMIC => Form::Fetch,
        flag::COMPARE_ATOMIC => Form::Compare,
        _ => return -errno::EOPNOTSUPP,
    };
    let Some(size) = element_bytes(datatype, operation, form) else { return -errno::EOPNOTSUPP };
    attr.write(AtomicAttr { count: ATOMIC_MAX / size, size });
    0
}
