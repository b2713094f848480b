//! A domain: this process in its universe.

use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use strait::boot::Universe;

use crate::abi::{AtomicAttr, Fid, Info, OpsDomain, OpsMr, Status, absent, class, errno, flag};
use crate::endpoint::Endpoint;
use crate::info::THREAD_DOMAIN;
use crate::numbers::{Form, element_bytes};
use crate::object::{self, Object};
use crate::traffic::ATOMIC_MAX;
use crate::{av, cntr, cq, endpoint, mr};

/// A domain. `struct fid_domain`.
#[repr(C)]
pub(crate) struct Domain {
    fid: Fid,
    ops: *const OpsDomain,
    mr: *const OpsMr,
    universe: Universe,
    /// First byte and length of each memory region, by its key.
    regions: RefCell<HashMap<u64, (usize, usize)>>,
    next_key: Cell<u64>,
    endpoints: RefCell<Vec<*const Endpoint>>,
    /// Held in every call where the user does not see to it that one thread at a time is here.
    gate: Option<Mutex<()>>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Domain {
    const CLASS: usize = class::DOMAIN;
}

impl Domain {
    pub(crate) const fn universe(&self) -> &Universe {
        &self.universe
    }

    /// Registers memory, under a key that no other has or had: others remember keys.
    pub(crate) fn register(&self, base: usize, length: usize) -> u64 {
        let key = self.next_key.replace(self.next_key.get() + 1);
        self.regions.borrow_mut().insert(key, (base, length));
        key
    }

    pub(crate) fn deregister(&self, key: u64) {
        self.regions.borrow_mut().remove(&key);
        for endpoint in self.endpoints.borrow().iter() {
            // SAFETY: it is open, or it would have detached itself.
            unsafe { &**endpoint }.close_region(key);
        }
    }

    /// First byte and length of the region of `key`.
    pub(crate) fn region(&self, key: u64) -> Option<(usize, usize)> {
        self.regions.borrow().get(&key).copied()
    }

    /// Takes in an endpoint, which hears of regions that are closed.
    pub(crate) fn attach(&self, endpoint: *const Endpoint) {
        self.endpoints.borrow_mut().push(endpoint);
    }

    /// Forgets an endpoint, which is about to go.
    pub(crate) fn detach(&self, endpoint: *const Endpoint) {
        self.endpoints.borrow_mut().retain(|open| *open != endpoint);
    }

    /// Whether all of the memory is in the region of `key`.
    pub(crate) fn has_registered(&self, key: u64, base: usize, length: usize) -> bool {
        self.region(key).is_some_and(|(first, whole)| {
            base.checked_sub(first).is_some_and(|before| {
                before.checked_add(length).is_some_and(|needed| needed <= whole)
            })
        })
    }

    /// Whether [`Domain::enter`] has nothing to do.
    #[inline(always)]
    pub(crate) const fn has_no_gate(&self) -> bool {
        self.gate.is_none()
    }

    /// Lets one thread at a time in.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<MutexGuard<'_, ()>> {
        let gate = self.gate.as_ref()?;
        Some(gate.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

static OPS: OpsDomain = OpsDomain {
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

/// Opens a domain: enters the universe of this process's job.
///
/// # Safety
///
/// libfabric's, of `fi_domain`.
pub(crate) unsafe extern "C" fn open(
    _fabric: *mut Fid,
    info: *mut Info,
    domain: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    let universe = match Universe::of_job() {
        Ok(universe) => universe,
        Err(error) => return failed(&error),
    };
    // SAFETY: by the contract.
    let threading = unsafe {
        info.as_ref().and_then(|info| info.domain_attr.as_ref()).map_or(0, |attr| attr.threading)
    };
    let made = Domain {
        fid: object::fid::<Domain>(context),
        ops: &raw const OPS,
        mr: mr::ops(),
        universe,
        regions: RefCell::default(),
        next_key: Cell::new(1),
        endpoints: RefCell::default(),
        gate: (threading != THREAD_DOMAIN).then(Mutex::default),
    };
    // SAFETY: by the contract.
    unsafe { object::hand_out(made, domain) }
}

/// Says on standard error why a process cannot take part, which libfabric's numbers cannot.
#[cold]
pub(crate) fn failed(error: &dyn core::error::Error) -> Status {
    eprintln!("strait: {error}");
    -errno::EIO
}

unsafe extern "C" fn query_atomic(
    _domain: *mut Fid,
    datatype: u32,
    operation: u32,
    attr: *mut AtomicAttr,
    flags: u64,
) -> Status {
    let form = match flags {
        0 => Form::Write,
        flag::FETCH_ATOMIC => Form::Fetch,
        flag::COMPARE_ATOMIC => Form::Compare,
        _ => return -errno::EOPNOTSUPP,
    };
    let Some(size) = element_bytes(datatype, operation, form) else { return -errno::EOPNOTSUPP };
    // SAFETY: by libfabric's contract.
    if let Some(attr) = unsafe { attr.as_mut() } {
        *attr = AtomicAttr { count: ATOMIC_MAX / size, size };
    }
    0
}
