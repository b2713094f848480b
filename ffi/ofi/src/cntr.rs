//! Counters of completed operations.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::time::Duration;
use std::time::Instant;

use crate::abi::{CntrAttr, Fid, OpsCntr, Status, class, errno};
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::object::{self, Object};

/// A counter.
#[repr(C)]
pub(crate) struct Cntr {
    fid: Fid,
    ops: *const OpsCntr,
    domain: *const Domain,
    good: Cell<u64>,
    bad: Cell<u64>,
    endpoints: RefCell<Vec<*const Endpoint>>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Cntr {
    const CLASS: usize = class::CNTR;
}

impl Cntr {
    /// An operation ended.
    #[inline(always)]
    pub(crate) fn count(&self, well: bool) {
        let counter = if well { &self.good } else { &self.bad };
        counter.set(counter.get() + 1);
    }

    pub(crate) fn attach(&self, endpoint: *const Endpoint) {
        let mut endpoints = self.endpoints.borrow_mut();
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }

    pub(crate) fn detach(&self, endpoint: *const Endpoint) {
        self.endpoints.borrow_mut().retain(|other| *other != endpoint);
    }

    fn look(&self) -> u64 {
        // SAFETY: a domain outlives what was made in it.
        let _turn = unsafe { &*self.domain }.enter();
        for endpoint in self.endpoints.borrow().iter() {
            // SAFETY: an endpoint takes itself off the list before it goes.
            unsafe { &**endpoint }.progress();
        }
        self.good.get()
    }
}

static OPS: OpsCntr =
    OpsCntr { size: size_of::<OpsCntr>(), read, readerr, add, set, wait, adderr, seterr };

/// Opens a counter in `domain`.
///
/// # Safety
///
/// libfabric's, of `fi_cntr_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut Fid,
    _attr: *mut CntrAttr,
    cntr: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    let domain: *const Domain = unsafe { Domain::of(domain) };
    let made = Cntr {
        fid: object::fid::<Cntr>(context),
        ops: &raw const OPS,
        domain,
        good: Cell::new(0),
        bad: Cell::new(0),
        endpoints: RefCell::default(),
    };
    // SAFETY: by the contract.
    unsafe { object::hand_out(made, cntr) }
}

unsafe extern "C" fn read(cntr: *mut Fid) -> u64 {
    // SAFETY: by libfabric's contract.
    unsafe { Cntr::of(cntr) }.look()
}

unsafe extern "C" fn readerr(cntr: *mut Fid) -> u64 {
    // SAFETY: by libfabric's contract.
    unsafe { Cntr::of(cntr) }.bad.get()
}

unsafe extern "C" fn add(cntr: *mut Fid, value: u64) -> Status {
    // SAFETY: by libfabric's contract.
    let good = &unsafe { Cntr::of(cntr) }.good;
    good.set(good.get().wrapping_add(value));
    0
}

unsafe extern "C" fn set(cntr: *mut Fid, value: u64) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { Cntr::of(cntr) }.good.set(value);
    0
}

unsafe extern "C" fn adderr(cntr: *mut Fid, value: u64) -> Status {
    // SAFETY: by libfabric's contract.
    let bad = &unsafe { Cntr::of(cntr) }.bad;
    bad.set(bad.get().wrapping_add(value));
    0
}

unsafe extern "C" fn seterr(cntr: *mut Fid, value: u64) -> Status {
    // SAFETY: by libfabric's contract.
    unsafe { Cntr::of(cntr) }.bad.set(value);
    0
}

unsafe extern "C" fn wait(cntr: *mut Fid, threshold: u64, milliseconds: c_int) -> Status {
    // SAFETY: by libfabric's contract.
    let cntr = unsafe { Cntr::of(cntr) };
    let (begin, errors) = (Instant::now(), cntr.bad.get());
    let longest = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    while cntr.look() < threshold {
        if cntr.bad.get() != errors {
            return -errno::EAVAIL;
        }
        if longest.is_some_and(|longest| begin.elapsed() >= longest) {
            return -libc::ETIMEDOUT;
        }
        std::thread::yield_now();
    }
    0
}
