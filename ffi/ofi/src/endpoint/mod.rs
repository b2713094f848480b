//! An endpoint: a rank of the universe, and the calls that libfabric makes for it.

mod atomic;
mod msg;
mod rma;
mod tagged;

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::MutexGuard;

use strait::Error;

use crate::abi::{
    ADDR_UNSPEC, FiAddr, Fid, Info, OpsAtomic, OpsCm, OpsEp, OpsMsg, OpsRma, OpsTagged, Ssize,
    Status, absent, class, command, errno, flag,
};
use crate::av::{Av, give_name};
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::{self, Domain};
use crate::matching::ANY_SOURCE;
use crate::object::{self, Object};
use crate::regions::{self, Registered};
use crate::traffic::{OPS as KINDS, Traffic};
use crate::wire::Name;

/// An endpoint. `struct fid_ep` first.
#[repr(C)]
pub(crate) struct Endpoint {
    fid: Fid,
    ops: *const OpsEp,
    cm: *const OpsCm,
    msg: *const OpsMsg,
    rma: *const OpsRma,
    tagged: *const OpsTagged,
    atomic: *const OpsAtomic,
    collective: *const c_void,
    domain: *const Domain,
    av: Cell<*const Av>,
    name: Name,
    tx: Defaults,
    rx: Defaults,
    /// Receives may name their source; otherwise what they say of it means nothing (`FI_DIRECTED_RECV`).
    directed: bool,
    traffic: RefCell<Traffic>,
}

/// What holds for calls that have no flags.
#[derive(Debug)]
struct Defaults {
    op_flags: Cell<u64>,
    /// Completions only for those that ask for one.
    selective: Cell<bool>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Endpoint {
    const CLASS: usize = class::EP;
    const BIND: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> Status = bind;
    const CONTROL: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> Status = control;
}

impl Defaults {
    const fn new(op_flags: u64) -> Self {
        Self { op_flags: Cell::new(op_flags), selective: Cell::new(false) }
    }

    /// Whether an operation with `flags` goes without a completion entry.
    #[inline(always)]
    fn quiet(&self, flags: u64) -> bool {
        self.selective.get() && flags & flag::COMPLETION == 0
    }
}

impl Endpoint {
    /// Moves whatever can move.
    #[inline(always)]
    pub(crate) fn progress(&self) {
        self.traffic.borrow_mut().progress();
    }

    /// May talk to the process of this number from now on.
    ///
    /// # Errors
    ///
    /// One of libfabric's: there is no way.
    pub(crate) fn meet(&self, number: u32) -> Result<(), Status> {
        let met = self.traffic.borrow().port().meet(number);
        met.map_err(|error| domain::failed(&error))
    }

    /// Opens a region to peers.
    ///
    /// # Errors
    ///
    /// There is no room for it.
    pub(crate) fn open_region(&self, key: u64, registered: &Registered) -> Result<(), Error> {
        let Registered { base, length, access } = *registered;
        self.traffic.borrow().port().open_region(regions::place(key), access, (base, length))
    }

    /// Closes the region of this key to peers.
    pub(crate) fn close_region(&self, key: u64) {
        let mut traffic = self.traffic.borrow_mut();
        traffic.port().close_region(regions::place(key));
        traffic.close_region(key);
    }

    /// The address of `rank` in this endpoint's address vector.
    pub(crate) fn address_of(&self, rank: u32) -> FiAddr {
        // SAFETY: null, or bound: the user closes it after the endpoint.
        unsafe { self.av.get().as_ref() }.map_or(ADDR_UNSPEC, |av| av.address_of(rank))
    }

    /// The rank at `address`.
    ///
    /// # Errors
    ///
    /// There is none.
    #[inline(always)]
    fn rank(&self, address: FiAddr) -> Result<u32, Ssize> {
        // SAFETY: as above.
        let av = unsafe { self.av.get().as_ref() };
        av.and_then(|av| av.rank(address)).ok_or(-(errno::EINVAL as Ssize))
    }

    /// The rank to receive from.
    #[inline(always)]
    fn source(&self, address: FiAddr) -> Result<u32, Ssize> {
        let any = address == ADDR_UNSPEC || !self.directed;
        if any { Ok(ANY_SOURCE) } else { self.rank(address) }
    }

    /// Whether the user sees to it that one thread at a time is here.
    #[inline(always)]
    fn is_mine_alone(&self) -> bool {
        // SAFETY: a domain outlives what was made in it.
        unsafe { &*self.domain }.has_no_gate()
    }

    /// Lets one thread at a time in.
    #[inline(always)]
    fn enter(&self) -> Option<MutexGuard<'_, ()>> {
        // SAFETY: a domain outlives what was made in it.
        unsafe { &*self.domain }.enter()
    }

    /// Calls `act` with the endpoint's messages, one thread at a time.
    #[inline(always)]
    fn with(&self, act: impl FnOnce(&mut Traffic) -> Ssize) -> Ssize {
        let _turn = self.enter();
        act(&mut self.traffic.borrow_mut())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _turn = self.enter();
        let mut traffic = self.traffic.borrow_mut();
        let this = ptr::from_ref(self);
        // SAFETY: a domain outlives what was made in it.
        unsafe { &*self.domain }.detach(this);
        // SAFETY: null, or bound: the user closes it after the endpoint.
        unsafe { self.av.get().as_ref() }.into_iter().for_each(|av| av.detach(this));
        for cq in [traffic.out.tx, traffic.out.rx] {
            // SAFETY: null, or bound: the user closes it after the endpoint.
            unsafe { cq.as_ref() }.into_iter().for_each(|cq| cq.detach(this));
        }
        for counter in traffic.out.counters {
            // SAFETY: as above.
            unsafe { counter.as_ref() }.into_iter().for_each(|counter| counter.detach(this));
        }
        traffic.close();
    }
}

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

/// Opens an endpoint in `domain`: claims a rank.
///
/// # Safety
///
/// libfabric's, of `fi_endpoint`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut Fid,
    info: *mut Info,
    endpoint: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    let domain = unsafe { Domain::of(domain) };
    let universe = domain.universe();
    let traffic = match universe.port().and_then(|port| Traffic::new(port, domain)) {
        Ok(traffic) => traffic,
        Err(error) => return domain::failed(&error),
    };
    let name = Name { pid: std::process::id(), contact: traffic.port().contact() };
    // SAFETY: by the contract.
    let (caps, tx, rx) = unsafe {
        info.as_ref().map_or((0, 0, 0), |info| {
            let tx = info.tx_attr.as_ref().map_or(0, |attr| attr.op_flags);
            (info.caps, tx, info.rx_attr.as_ref().map_or(0, |attr| attr.op_flags))
        })
    };
    let made = Endpoint {
        fid: object::fid::<Endpoint>(context),
        ops: &raw const OPS,
        cm: &raw const CM,
        msg: msg::ops(),
        rma: rma::ops(),
        tagged: tagged::ops(),
        atomic: atomic::ops(),
        collective: ptr::null(),
        domain,
        av: Cell::new(ptr::null()),
        name,
        tx: Defaults::new(tx),
        rx: Defaults::new(rx),
        directed: caps & flag::DIRECTED_RECV != 0,
        traffic: RefCell::new(traffic),
    };
    // SAFETY: by the contract.
    let status = unsafe { object::hand_out(made, endpoint) };
    if status != 0 {
        return status;
    }
    // SAFETY: as was just seen.
    let this = unsafe { Endpoint::of(*endpoint) };
    let attached = domain.attach(this);
    if attached.is_err() {
        // SAFETY: the user has not seen it.
        drop(unsafe { Box::from_raw((*endpoint).cast::<Endpoint>()) });
    }
    attached.err().unwrap_or(0)
}

unsafe extern "C" fn bind(endpoint: *mut Fid, other: *mut Fid, flags: u64) -> Status {
    // SAFETY: by libfabric's contract.
    let this = unsafe { Endpoint::of(endpoint) };
    let mut traffic = this.traffic.borrow_mut();
    let out = &mut traffic.out;
    // SAFETY: by libfabric's contract.
    if let Some(cq) = unsafe { object::as_class::<Cq>(other) } {
        let selective = flags & flag::SELECTIVE_COMPLETION != 0;
        if flags & flag::SEND != 0 {
            out.tx = cq;
            this.tx.selective.set(selective);
        }
        if flags & flag::RECV != 0 {
            out.rx = cq;
            this.rx.selective.set(selective);
        }
        cq.attach(this);
        return 0;
    }
    // SAFETY: by libfabric's contract.
    if let Some(counter) = unsafe { object::as_class::<Cntr>(other) } {
        for (kind, bound) in KINDS {
            if flags & bound != 0 {
                out.counters[kind as usize] = counter;
            }
        }
        counter.attach(this);
        return 0;
    }
    // SAFETY: by libfabric's contract.
    if let Some(av) = unsafe { object::as_class::<Av>(other) } {
        this.av.set(av);
        drop(traffic);
        return av.attach(this).err().unwrap_or(0);
    }
    // What remains are event queues, in which nothing happens.
    0
}

unsafe extern "C" fn control(endpoint: *mut Fid, what: c_int, argument: *mut c_void) -> Status {
    // SAFETY: by libfabric's contract.
    let this = unsafe { Endpoint::of(endpoint) };
    match what {
        command::ENABLE if this.av.get().is_null() => -errno::ENOAV,
        command::ENABLE => 0,
        command::GETOPSFLAG | command::SETOPSFLAG => {
            // SAFETY: by libfabric's contract.
            let Some(flags) = (unsafe { argument.cast::<u64>().as_mut() }) else {
                return -errno::EINVAL;
            };
            let (sends, receives) = (*flags & flag::SEND != 0, *flags & flag::RECV != 0);
            if sends == receives {
                return -errno::EINVAL;
            }
            let op_flags = if sends { &this.tx.op_flags } else { &this.rx.op_flags };
            if what == command::SETOPSFLAG {
                op_flags.set(*flags & !(flag::SEND | flag::RECV));
            } else {
                *flags = op_flags.get();
            }
            0
        }
        _ => -errno::ENOSYS,
    }
}

unsafe extern "C" fn getname(endpoint: *mut Fid, name: *mut c_void, length: *mut usize) -> Status {
    // SAFETY: by libfabric's contract.
    let whole = unsafe { give_name(Endpoint::of(endpoint).name, name, length) };
    if whole { 0 } else { -errno::ETOOSMALL }
}

unsafe extern "C" fn cancel(endpoint: *mut Fid, context: *mut c_void) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe { Endpoint::of(endpoint) }.with(|traffic| traffic.cancel(context))
}

/// `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: c_int = 0;

/// `FI_OPT_CM_DATA_SIZE`.
const CM_DATA_SIZE: c_int = 1;

unsafe extern "C" fn getopt(
    endpoint: *mut Fid,
    _level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut usize,
) -> Status {
    // SAFETY: by libfabric's contract.
    let this = unsafe { Endpoint::of(endpoint) };
    let found = match option {
        MIN_MULTI_RECV => this.traffic.borrow().min_multi,
        CM_DATA_SIZE => 0,
        _ => return -errno::ENOSYS,
    };
    // SAFETY: by libfabric's contract.
    unsafe {
        if length.read() < size_of::<usize>() {
            return -errno::ETOOSMALL;
        }
        value.cast::<usize>().write_unaligned(found);
        length.write(size_of::<usize>());
    }
    0
}

unsafe extern "C" fn setopt(
    endpoint: *mut Fid,
    _level: c_int,
    option: c_int,
    value: *const c_void,
    length: usize,
) -> Status {
    if option != MIN_MULTI_RECV || length != size_of::<usize>() {
        return -errno::ENOSYS;
    }
    // SAFETY: by libfabric's contract.
    let (this, bytes) = unsafe { (Endpoint::of(endpoint), value.cast::<usize>().read_unaligned()) };
    this.traffic.borrow_mut().min_multi = bytes;
    0
}
