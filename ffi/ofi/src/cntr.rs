//! Counters of completed operations.

use core::ffi::{c_int, c_void};
use core::time::Duration;
use std::time::Instant;

use crate::abi::{
    CntrArg, CntrAttr, CntrFid, DomainArg, FiStatus, Fid, NewArg, OpsCntr, class, errno,
};
use crate::counts::TrafficCounts;
use crate::domain::Domain;
use crate::endpoint::FidEp;
use crate::endpoint_list::EndpointList;
use crate::object::{self, Object, ObjectRef};

/// A counter.
#[repr(C)]
pub(crate) struct Cntr {
    fid: Fid,
    ops: *const OpsCntr,
    domain: ObjectRef<Domain>,
    counts: TrafficCounts,
    endpoints: EndpointList<FidEp>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Cntr {
    type Class = CntrFid;
    const CLASS: usize = class::CNTR;
}

impl Cntr {
    pub(crate) const fn counts(&self) -> &TrafficCounts {
        &self.counts
    }

    pub(crate) const fn endpoints(&self) -> &EndpointList<FidEp> {
        &self.endpoints
    }

    fn look(&self) -> u64 {
        let _turn = self.domain.enter();
        self.endpoints.each(FidEp::progress);
        self.counts.good.get()
    }
}

static OPS: OpsCntr =
    OpsCntr { size: size_of::<OpsCntr>(), read, readerr, add, set, wait, adderr, seterr };

/// Opens a counter in `domain`, for `fi_cntr_open`.
pub(crate) extern "C" fn open(
    domain: DomainArg<'_>,
    _attr: *const CntrAttr,
    cntr: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let made = Cntr {
        fid: object::fid::<Cntr>(context),
        ops: &raw const OPS,
        domain: Domain::keep(domain),
        counts: TrafficCounts::default(),
        endpoints: EndpointList::default(),
    };
    object::hand_out(made, cntr)
}

extern "C" fn read(cntr: CntrArg<'_>) -> u64 {
    Cntr::of(cntr).look()
}

extern "C" fn readerr(cntr: CntrArg<'_>) -> u64 {
    Cntr::of(cntr).counts.bad.get()
}

extern "C" fn add(cntr: CntrArg<'_>, value: u64) -> FiStatus {
    let good = &Cntr::of(cntr).counts.good;
    good.set(good.get().wrapping_add(value));
    0
}

extern "C" fn set(cntr: CntrArg<'_>, value: u64) -> FiStatus {
    Cntr::of(cntr).counts.good.set(value);
    0
}

extern "C" fn adderr(cntr: CntrArg<'_>, value: u64) -> FiStatus {
    let bad = &Cntr::of(cntr).counts.bad;
    bad.set(bad.get().wrapping_add(value));
    0
}

extern "C" fn seterr(cntr: CntrArg<'_>, value: u64) -> FiStatus {
    Cntr::of(cntr).counts.bad.set(value);
    0
}

extern "C" fn wait(cntr: CntrArg<'_>, threshold: u64, milliseconds: c_int) -> FiStatus {
    let cntr = Cntr::of(cntr);
    let (begin, errors) = (Instant::now(), cntr.counts.bad.get());
    let longest = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    while cntr.look() < threshold {
        if cntr.counts.bad.get() != errors {
            return -errno::EAVAIL;
        }
        if longest.is_some_and(|longest| begin.elapsed() >= longest) {
            return -libc::ETIMEDOUT;
        }
        std::thread::yield_now();
    }
    0
}
