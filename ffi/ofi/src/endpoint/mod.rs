//! An endpoint: a rank of the universe, and the functions that libfabric calls on it.

mod atomic;
mod msg;
mod rma;
mod tagged;

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::MutexGuard;

use strait::port::Port;
use strait::{ANY_SOURCE, Error};

use crate::abi::{
    ADDR_UNSPEC, DomainArg, EpArg, EpFid, FiAddr, FiInfo, FiStatus, Fid, LengthArg, MemoryArg,
    NewArg, OpsAtomic, OpsCm, OpsEp, OpsMsg, OpsRma, OpsTagged, RoomArg, Ssize, absent, class,
    command, errno, flag,
};
use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::{self, Domain};
use crate::object::{self, Object, ObjectRef};
use crate::regions::{self, MrEntry};
use crate::traffic::{OPS as KINDS, Traffic};
use crate::wire::ProviderName;

/// An endpoint. It begins with `struct fid_ep`.
#[repr(C)]
pub(crate) struct FidEp {
    fid: Fid,
    ops: *const OpsEp,
    cm: *const OpsCm,
    msg: *const OpsMsg,
    rma: *const OpsRma,
    tagged: *const OpsTagged,
    atomic: *const OpsAtomic,
    collective: *const c_void,
    domain: ObjectRef<Domain>,
    av: Cell<Option<ObjectRef<Av>>>,
    name: ProviderName,
    tx: Defaults,
    rx: Defaults,
    /// Receives may name their source. Otherwise their source field is ignored
    /// (`FI_DIRECTED_RECV`).
    directed: bool,
    traffic: RefCell<Traffic>,
}

/// Defaults for calls that have no flags.
#[derive(Debug)]
struct Defaults {
    op_flags: Cell<u64>,
    /// Only operations that ask for a completion get one.
    selective: Cell<bool>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for FidEp {
    type Class = EpFid;
    const CLASS: usize = class::EP;
    const BIND: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> FiStatus = bind;
    const CONTROL: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> FiStatus = control;
}

impl Defaults {
    const fn new(op_flags: u64) -> Self {
        Self { op_flags: Cell::new(op_flags), selective: Cell::new(false) }
    }

    /// Returns whether an operation with `flags` writes no completion entry.
    #[inline(always)]
    fn quiet(&self, flags: u64) -> bool {
        self.selective.get() && flags & flag::COMPLETION == 0
    }
}

impl FidEp {
    /// Makes progress.
    #[inline(always)]
    pub(crate) fn progress(&self) {
        self.traffic.borrow_mut().progress();
    }

    /// Allows messages to and from the process with this number from now on.
    ///
    /// # Errors
    ///
    /// One of libfabric's: there is no way to the process.
    pub(crate) fn meet(&self, number: u32) -> Result<(), FiStatus> {
        let met = self.traffic.borrow().port().meet(number);
        met.map_err(|error| domain::failed(&error))
    }

    /// Opens a region to peers.
    ///
    /// # Errors
    ///
    /// Fails when there is no room for the region.
    pub(crate) fn open_region(&self, key: u64, registered: &MrEntry) -> Result<(), Error> {
        let MrEntry { base, length, access } = *registered;
        self.traffic.borrow().port().open_region(regions::place(key), access, (base, length))
    }

    /// Closes the region of this key to peers.
    pub(crate) fn close_region(&self, key: u64) {
        let mut traffic = self.traffic.borrow_mut();
        traffic.port().close_region(regions::place(key));
        traffic.close_region(key);
    }

    /// Returns the address of `rank` in this endpoint's address vector.
    pub(crate) fn address_of(&self, rank: u32) -> FiAddr {
        self.av.get().map_or(ADDR_UNSPEC, |av| av.address_of(rank))
    }

    /// Returns the rank at `address`.
    ///
    /// # Errors
    ///
    /// Fails when there is none.
    #[inline(always)]
    fn rank(&self, address: FiAddr) -> Result<u32, Ssize> {
        self.av.get().and_then(|av| av.rank(address)).ok_or(-(errno::EINVAL as Ssize))
    }

    /// Returns the rank to receive from.
    #[inline(always)]
    fn source(&self, address: FiAddr) -> Result<u32, Ssize> {
        let any = address == ADDR_UNSPEC || !self.directed;
        if any { Ok(ANY_SOURCE) } else { self.rank(address) }
    }

    /// Returns whether the user guarantees one thread at a time.
    #[inline(always)]
    fn is_mine_alone(&self) -> bool {
        self.domain.has_no_gate()
    }

    /// Admits one thread at a time.
    #[inline(always)]
    fn enter(&self) -> Option<MutexGuard<'_, ()>> {
        self.domain.enter()
    }

    /// Calls `act` with the endpoint's messages, one thread at a time.
    #[inline(always)]
    fn with(&self, act: impl FnOnce(&mut Traffic) -> Ssize) -> Ssize {
        let _turn = self.enter();
        act(&mut self.traffic.borrow_mut())
    }
}

impl Drop for FidEp {
    fn drop(&mut self) {
        let _turn = self.enter();
        let mut traffic = self.traffic.borrow_mut();
        let this = ptr::from_ref(self);
        self.domain.detach(this);
        self.av.get().into_iter().for_each(|av| av.detach(this));
        for cq in [traffic.out.tx, traffic.out.rx] {
            // SAFETY: null, or bound: the user closes it after the endpoint.
            unsafe { cq.as_ref() }.into_iter().for_each(|cq| cq.detach(this));
        }
        for counter in traffic.out.counters {
            // SAFETY: null, or bound: the user closes it after the endpoint.
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

/// Opens an endpoint in `domain`, for `fi_endpoint`: claims a rank.
pub(crate) extern "C" fn open(
    domain: DomainArg<'_>,
    info: Option<&FiInfo>,
    endpoint: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let domain = Domain::keep(domain);
    let opened = Port::open(domain.universe());
    let traffic = match opened.and_then(|port| Traffic::new(port, domain.as_ptr())) {
        Ok(traffic) => traffic,
        Err(error) => return domain::failed(&error),
    };
    let name = ProviderName { pid: std::process::id(), address: traffic.port().peer_address() };
    let caps = info.map_or(0, |info| info.caps);
    let made = FidEp {
        fid: object::fid::<FidEp>(context),
        ops: &raw const OPS,
        cm: &raw const CM,
        msg: msg::ops(),
        rma: rma::ops(),
        tagged: tagged::ops(),
        atomic: atomic::ops(),
        collective: ptr::null(),
        domain,
        av: Cell::new(None),
        name,
        tx: Defaults::new(info.and_then(FiInfo::tx).map_or(0, |attr| attr.op_flags)),
        rx: Defaults::new(info.and_then(FiInfo::rx).map_or(0, |attr| attr.op_flags)),
        directed: caps & flag::DIRECTED_RECV != 0,
        traffic: RefCell::new(traffic),
    };
    object::hand_out_if(made, endpoint, |made| domain.attach(made.kept_while_open()))
}

impl FidEp {
    /// Returns this endpoint, for the lists from which [`FidEp::drop`] removes it.
    fn kept_while_open(&self) -> ObjectRef<Self> {
        // SAFETY: an endpoint stays where `open` put it, and removes itself from all lists before
        // it closes.
        unsafe { ObjectRef::new(self) }
    }

    /// Binds another object: a queue, a counter or an address vector.
    fn bind(&self, other: Bindable, flags: u64) -> FiStatus {
        let mut traffic = self.traffic.borrow_mut();
        let out = &mut traffic.out;
        match other {
            Bindable::Cq(cq) => {
                let selective = flags & flag::SELECTIVE_COMPLETION != 0;
                if flags & flag::SEND != 0 {
                    out.tx = cq.as_ptr();
                    self.tx.selective.set(selective);
                }
                if flags & flag::RECV != 0 {
                    out.rx = cq.as_ptr();
                    self.rx.selective.set(selective);
                }
                cq.attach(self.kept_while_open());
                0
            }
            Bindable::Cntr(counter) => {
                for (kind, bound) in KINDS {
                    if flags & bound != 0 {
                        out.counters[kind as usize] = counter.as_ptr();
                    }
                }
                counter.attach(self.kept_while_open());
                0
            }
            Bindable::Av(av) => {
                self.av.set(Some(av));
                drop(traffic);
                av.attach(self.kept_while_open()).err().unwrap_or(0)
            }
            Bindable::Eq => 0,
        }
    }
}

/// An object that may be bound to an endpoint.
enum Bindable {
    Cq(ObjectRef<Cq>),
    Cntr(ObjectRef<Cntr>),
    Av(ObjectRef<Av>),
    /// An event queue, which never has an event.
    Eq,
}

impl Bindable {
    /// # Safety
    ///
    /// `fid` is null or was returned by this provider, and is closed after the endpoint (contract
    /// of [`object::as_class`]).
    unsafe fn of(fid: *mut Fid) -> Self {
        // SAFETY: `fid` is null or was returned by this provider, and is closed later (contract of
        // `of`).
        unsafe {
            if let Some(cq) = object::as_class::<Cq>(fid) {
                Self::Cq(cq)
            } else if let Some(counter) = object::as_class::<Cntr>(fid) {
                Self::Cntr(counter)
            } else {
                object::as_class::<Av>(fid).map_or(Self::Eq, Self::Av)
            }
        }
    }
}

unsafe extern "C" fn bind(endpoint: *mut Fid, other: *mut Fid, flags: u64) -> FiStatus {
    // SAFETY: the table belongs to an open endpoint, and the bound object is closed later.
    unsafe { (*endpoint.cast::<FidEp>()).bind(Bindable::of(other), flags) }
}

unsafe extern "C" fn control(endpoint: *mut Fid, what: c_int, argument: *mut c_void) -> FiStatus {
    // SAFETY: the table belongs to an open endpoint.
    let this = unsafe { &*endpoint.cast::<FidEp>() };
    match what {
        command::ENABLE if this.av.get().is_none() => -errno::ENOAV,
        command::ENABLE => 0,
        command::GETOPSFLAG | command::SETOPSFLAG => {
            // SAFETY: the argument of these commands is null or a number.
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

extern "C" fn getname(endpoint: EpArg<'_>, name: MemoryArg, length: RoomArg<'_>) -> FiStatus {
    let whole = length.fill(name, &FidEp::of(endpoint).name.bytes());
    if whole { 0 } else { -errno::ETOOSMALL }
}

extern "C" fn cancel(endpoint: EpArg<'_>, context: *mut c_void) -> Ssize {
    FidEp::of(endpoint).with(|traffic| traffic.cancel(context))
}

/// `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: c_int = 0;

/// `FI_OPT_CM_DATA_SIZE`.
const CM_DATA_SIZE: c_int = 1;

extern "C" fn getopt(
    endpoint: EpArg<'_>,
    _level: c_int,
    option: c_int,
    value: MemoryArg,
    length: RoomArg<'_>,
) -> FiStatus {
    let found = match option {
        MIN_MULTI_RECV => FidEp::of(endpoint).traffic.borrow().min_multi,
        CM_DATA_SIZE => 0,
        _ => return -errno::ENOSYS,
    };
    if length.fill_whole(value, &found.to_ne_bytes()) { 0 } else { -errno::ETOOSMALL }
}

extern "C" fn setopt(
    endpoint: EpArg<'_>,
    _level: c_int,
    option: c_int,
    value: MemoryArg,
    length: LengthArg,
) -> FiStatus {
    if option != MIN_MULTI_RECV {
        return -errno::ENOSYS;
    }
    let Some(bytes) = value.read(length) else { return -errno::ENOSYS };
    FidEp::of(endpoint).traffic.borrow_mut().min_multi = bytes;
    0
}
