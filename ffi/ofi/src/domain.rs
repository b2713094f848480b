//! A domain: this process in its universe.

use core::cell::RefCell;
use core::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use strait::boot::Universe;
use strait::port::REGIONS_MAX;

use crate::abi::{AtomicAttr, Fid, Info, OpsDomain, OpsMr, Status, absent, class, errno, flag};
use crate::endpoint::Endpoint;
use crate::info::THREAD_DOMAIN;
use crate::numbers::{Form, element_bytes};
use crate::object::{self, Object};
use crate::regions::{Regions, Registered};
use crate::traffic::ATOMIC_MAX;
use crate::{av, cntr, cq, endpoint, mr};

/// A domain. `struct fid_domain`.
#[repr(C)]
pub(crate) struct Domain {
    fid: Fid,
    ops: *const OpsDomain,
    mr: *const OpsMr,
    universe: Universe,
    regions: RefCell<Regions>,
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
    ///
    /// # Errors
    ///
    /// One of libfabric's: there is no room for a further region.
    pub(crate) fn register(&self, registered: Registered) -> Result<u64, Status> {
        let added = self.regions.borrow_mut().add(registered);
        let Some(key) = added else {
            eprintln!(
                "strait: this process has {REGIONS_MAX} memory regions, and can have no more"
            );
            return Err(-errno::ENOMEM);
        };
        let endpoints = self.endpoints.borrow();
        for (opened, endpoint) in endpoints.iter().enumerate() {
            // SAFETY: it is open, or it would have detached itself.
            let error = unsafe { &**endpoint }.open_region(key, &registered).err();
            let Some(error) = error else { continue };
            for endpoint in &endpoints[..opened] {
                // SAFETY: as above.
                unsafe { &**endpoint }.close_region(key);
            }
            self.regions.borrow_mut().remove(key);
            failed(&error);
            return Err(-errno::ENOMEM);
        }
        Ok(key)
    }

    pub(crate) fn deregister(&self, key: u64) {
        for endpoint in self.endpoints.borrow().iter() {
            // SAFETY: it is open, or it would have detached itself.
            unsafe { &**endpoint }.close_region(key);
        }
        self.regions.borrow_mut().remove(key);
    }

    /// The region of `key`.
    pub(crate) fn region(&self, key: u64) -> Option<Registered> {
        self.regions.borrow().get(key)
    }

    /// Takes in an endpoint, through which peers reach all regions, and which hears of those that are opened and closed later.
    ///
    /// # Errors
    ///
    /// One of libfabric's: there is no memory to tell the peers of all regions.
    pub(crate) fn attach(&self, endpoint: &Endpoint) -> Result<(), Status> {
        for (key, registered) in self.regions.borrow().iter() {
            endpoint.open_region(key, registered).map_err(|error| failed(&error))?;
        }
        self.endpoints.borrow_mut().push(endpoint);
        Ok(())
    }

    /// Forgets an endpoint, which is about to go.
    pub(crate) fn detach(&self, endpoint: *const Endpoint) {
        self.endpoints.borrow_mut().retain(|open| *open != endpoint);
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
