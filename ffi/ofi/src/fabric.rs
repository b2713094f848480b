//! The fabric: where domains are opened.

use core::ffi::c_void;

use crate::abi::{API_VERSION, FabricAttr, Fid, OpsFabric, Status, absent, class};
use crate::object::{self, Object};
use crate::{domain, eq};

/// The fabric. `struct fid_fabric`.
#[repr(C)]
struct Fabric {
    fid: Fid,
    ops: *const OpsFabric,
    api_version: u32,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Fabric {
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

/// Opens the fabric.
///
/// # Safety
///
/// libfabric's, of `fi_fabric`.
pub(crate) unsafe extern "C" fn open(
    attr: *mut FabricAttr,
    fabric: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    let api_version = unsafe { attr.as_ref() }.map_or(API_VERSION, |attr| attr.api_version);
    let made = Fabric { fid: object::fid::<Fabric>(context), ops: &raw const OPS, api_version };
    // SAFETY: by the contract.
    unsafe { object::hand_out(made, fabric) }
}
