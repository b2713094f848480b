//! A domain: this process in its universe.

use core::cell::RefCell;
use core::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use strait::boot::Universe;
use strait::port::REGIONS_MAX;

use crate::abi::{
    AnswerArg, AtomicAttr, DomainArg, DomainFid, FabricArg, FiInfo, FiStatus, Fid, NewArg,
    OpsDomain, OpsMr, absent, class, errno, flag,
};
use crate::endpoint::FidEp;
use crate::info::THREAD_DOMAIN;
use crate::numbers::{Form, element_bytes};
use crate::object::{self, Object, ObjectRef};
use crate::regions::{MrEntry, MrTable};
use crate::traffic::ATOMIC_MAX;
use crate::{av, cntr, cq, endpoint, mr};

/// A domain. `struct fid_domain`.
#[repr(C)]
pub(crate) struct Domain {
    fid: Fid,
    ops: *const OpsDomain,
    mr: *const OpsMr,
    universe: Universe,
    regions: RefCell<MrTable>,
    endpoints: RefCell<Vec<ObjectRef<FidEp>>>,
    /// A lock that every call holds, unless the user guarantees one thread at a time.
    gate: Option<Mutex<()>>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Domain {
    type Class = DomainFid;
    const CLASS: usize = class::DOMAIN;
}

impl Domain {
    pub(crate) const fn universe(&self) -> &Universe {
        &self.universe
    }

    /// Registers memory under a key that no other region has or had, since peers remember keys.
    ///
    /// # Errors
    ///
    /// One of libfabric's: there is no room for a further region.
    pub(crate) fn register(&self, registered: MrEntry) -> Result<u64, FiStatus> {
        let added = self.regions.borrow_mut().add(registered);
        let Some(key) = added else {
            eprintln!(
                "strait: this process has {REGIONS_MAX} memory regions, and can have no more"
            );
            return Err(-errno::ENOMEM);
        };
        let endpoints = self.endpoints.borrow();
        for (opened, endpoint) in endpoints.iter().enumerate() {
            let error = endpoint.open_region(key, &registered).err();
            let Some(error) = error else { continue };
            for endpoint in &endpoints[..opened] {
                endpoint.close_region(key);
            }
            self.regions.borrow_mut().remove(key);
            failed(&error);
            return Err(-errno::ENOMEM);
        }
        Ok(key)
    }

    pub(crate) fn deregister(&self, key: u64) {
        for endpoint in self.endpoints.borrow().iter() {
            endpoint.close_region(key);
        }
        self.regions.borrow_mut().remove(key);
    }

    /// Returns the region of `key`.
    pub(crate) fn region(&self, key: u64) -> Option<MrEntry> {
        self.regions.borrow().get(key)
    }

    /// Adds an endpoint, through which peers reach all present and later regions.
    ///
    /// # Errors
    ///
    /// One of libfabric's: there is no memory to announce all regions to the peers.
    pub(crate) fn attach(&self, endpoint: ObjectRef<FidEp>) -> Result<(), FiStatus> {
        for (key, registered) in self.regions.borrow().iter() {
            endpoint.open_region(key, registered).map_err(|error| failed(&error))?;
        }
        self.endpoints.borrow_mut().push(endpoint);
        Ok(())
    }

    /// Removes an endpoint that is about to close.
    pub(crate) fn detach(&self, endpoint: *const FidEp) {
        self.endpoints.borrow_mut().retain(|open| open.as_ptr() != endpoint);
    }

    /// Returns whether [`Domain::enter`] has nothing to do.
    #[inline(always)]
    pub(crate) const fn has_no_gate(&self) -> bool {
        self.gate.is_none()
    }

    /// Admits one thread at a time.
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

/// Opens a domain, for `fi_domain`: joins the universe of this process's job.
pub(crate) extern "C" fn open(
    _fabric: FabricArg<'_>,
    info: Option<&FiInfo>,
    domain: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let universe = match Universe::of_job() {
        Ok(universe) => universe,
        Err(error) => return failed(&error),
    };
    let threading = info.and_then(FiInfo::domain).map_or(0, |attr| attr.threading);
    let made = Domain {
        fid: object::fid::<Domain>(context),
        ops: &raw const OPS,
        mr: mr::ops(),
        universe,
        regions: RefCell::default(),
        endpoints: RefCell::default(),
        gate: (threading != THREAD_DOMAIN).then(Mutex::default),
    };
    object::hand_out(made, domain)
}

/// Prints on standard error why a process cannot take part, since an error number cannot say it.
#[cold]
pub(crate) fn failed(error: &dyn core::error::Error) -> FiStatus {
    eprintln!("strait: {error}");
    -errno::EIO
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
