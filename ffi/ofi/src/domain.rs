//! A domain: this process in its universe.

use core::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use strait::Error;
use strait::boot::Universe;
use strait::port::REGIONS_MAX;

use crate::abi::{DomainFid, FiStatus, Fid, OpsDomain, OpsMr, WITH_ERROR_BUFFER, class, errno};
use crate::cause::failed;
use crate::endpoint_list::{EndpointList, OpenEndpoint};
use crate::object::{Object, ObjectRef};
use crate::regions::{MrEntry, MrTable};

/// A domain. `struct fid_domain`.
#[repr(C)]
pub(crate) struct Domain {
    fid: Fid,
    ops: *const OpsDomain,
    mr: *const OpsMr,
    universe: Universe,
    regions: RefCell<MrTable>,
    endpoints: EndpointList<dyn OpenEndpoint>,
    /// The version of libfabric's interface that the user asked for.
    api_version: u32,
    /// A lock that every call holds, unless the user guarantees one thread at a time.
    gate: Option<Mutex<()>>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Domain {
    type Class = DomainFid;
    const CLASS: usize = class::DOMAIN;
}

impl Domain {
    /// Makes a domain without endpoints and regions. `is_locked`: several threads may call at a
    /// time.
    pub(crate) fn new(
        fid: Fid,
        (ops, mr): (*const OpsDomain, *const OpsMr),
        universe: Universe,
        api_version: u32,
        is_locked: bool,
    ) -> Self {
        let (regions, endpoints) = (RefCell::default(), EndpointList::default());
        let gate = is_locked.then(Mutex::default);
        Self { fid, ops, mr, universe, regions, endpoints, api_version, gate }
    }

    pub(crate) const fn endpoints(&self) -> &EndpointList<dyn OpenEndpoint> {
        &self.endpoints
    }

    /// Returns whether error entries have a buffer of the user's for details.
    pub(crate) const fn has_error_buffers(&self) -> bool {
        self.api_version >= WITH_ERROR_BUFFER
    }

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
        let mut opened = 0;
        let all = self.endpoints.try_each(|endpoint| {
            endpoint.open_region(key, &registered)?;
            opened += 1;
            Ok(())
        });
        all.map(|()| key).map_err(|error: Error| {
            self.close_region(key, opened);
            failed(&error);
            -errno::ENOMEM
        })
    }

    /// Closes the region of `key` at all endpoints, and forgets it.
    pub(crate) fn deregister(&self, key: u64) {
        self.close_region(key, usize::MAX);
    }

    /// Closes the region of `key` at the first `opened` endpoints, and forgets it.
    fn close_region(&self, key: u64, opened: usize) {
        let mut left = opened;
        self.endpoints.each(|endpoint| {
            if left > 0 {
                endpoint.close_region(key);
                left -= 1;
            }
        });
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
    pub(crate) fn attach(&self, endpoint: ObjectRef<dyn OpenEndpoint>) -> Result<(), FiStatus> {
        for (key, registered) in self.regions.borrow().iter() {
            endpoint.open_region(key, registered).map_err(|error| failed(&error))?;
        }
        self.endpoints.attach(endpoint);
        Ok(())
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
