//! The fabric, in which domains are opened.

use core::ffi::c_void;

use crate::abi::{
    API_VERSION, FabricAttr, FabricFid, FiStatus, Fid, NewArg, OpsFabric, absent, class,
};
use crate::object::{self, Object};
use crate::{domain, eq};

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
    domain: domain::open,
    passive_ep: absent,
    eq_open: eq::open,
    wait_open: absent,
    trywait: absent,
    domain2: absent,
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
