//! The state of an endpoint.

use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use core::ptr;
use std::sync::MutexGuard;

use strait::Error;
use strait::raw::ANY_SOURCE;

use crate::abi::{
    ADDR_UNSPEC, FiAddr, FiInfo, FiStatus, Fid, OpsAtomic, OpsCm, OpsEp, OpsMsg, OpsRma, OpsTagged,
    Ssize, errno, flag,
};
use crate::av::Av;
use crate::cause::failed;
use crate::completions::CompletionEntries;
use crate::counts::TrafficCounts;
use crate::domain::Domain;
use crate::endpoint_list::{Detach, EndpointList, OpenEndpoint};
use crate::object::ObjectRef;
use crate::operation::BOUND_BY;
use crate::regions::{self, MrEntry};
use crate::traffic::Traffic;
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
    pub(super) tx: Defaults,
    pub(super) rx: Defaults,
    /// Receives may name their source. Otherwise their source field is ignored
    /// (`FI_DIRECTED_RECV`).
    directed: bool,
    pub(super) traffic: RefCell<Traffic>,
    /// The lists that have this endpoint.
    joined: RefCell<Vec<ObjectRef<dyn Detach>>>,
}

/// The tables of an endpoint's functions.
pub(super) struct Tables {
    pub(super) ops: *const OpsEp,
    pub(super) cm: *const OpsCm,
    pub(super) msg: *const OpsMsg,
    pub(super) rma: *const OpsRma,
    pub(super) tagged: *const OpsTagged,
    pub(super) atomic: *const OpsAtomic,
}

/// Defaults for calls that have no flags.
#[derive(Debug)]
pub(super) struct Defaults {
    pub(super) op_flags: Cell<u64>,
    /// Only operations that ask for a completion get one.
    selective: Cell<bool>,
}

impl Defaults {
    const fn new(op_flags: u64) -> Self {
        Self { op_flags: Cell::new(op_flags), selective: Cell::new(false) }
    }

    /// Returns whether an operation with `flags` writes no completion entry.
    #[inline(always)]
    pub(super) fn quiet(&self, flags: u64) -> bool {
        self.selective.get() && flags & flag::COMPLETION == 0
    }
}

impl FidEp {
    /// Makes progress.
    #[inline(always)]
    pub(crate) fn progress(&self) {
        self.traffic.borrow_mut().progress();
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
    pub(super) fn rank(&self, address: FiAddr) -> Result<u32, Ssize> {
        self.av.get().and_then(|av| av.rank(address)).ok_or(-(errno::EINVAL as Ssize))
    }

    /// Returns the rank to receive from.
    #[inline(always)]
    pub(super) fn source(&self, address: FiAddr) -> Result<u32, Ssize> {
        let any = address == ADDR_UNSPEC || !self.directed;
        if any { Ok(ANY_SOURCE) } else { self.rank(address) }
    }

    /// Returns whether the user guarantees one thread at a time.
    #[inline(always)]
    pub(super) fn is_mine_alone(&self) -> bool {
        self.domain.has_no_gate()
    }

    /// Admits one thread at a time.
    #[inline(always)]
    fn enter(&self) -> Option<MutexGuard<'_, ()>> {
        self.domain.enter()
    }

    /// Calls `act` with the endpoint's messages, one thread at a time.
    #[inline(always)]
    pub(super) fn with(&self, act: impl FnOnce(&mut Traffic) -> Ssize) -> Ssize {
        let _turn = self.enter();
        act(&mut self.traffic.borrow_mut())
    }

    /// Makes an endpoint with the flags that `info` names.
    pub(super) fn new(
        fid: Fid,
        tables: Tables,
        domain: ObjectRef<Domain>,
        traffic: Traffic,
        info: Option<&FiInfo>,
    ) -> Self {
        let Tables { ops, cm, msg, rma, tagged, atomic } = tables;
        let address = traffic.port().peer_address();
        let tx = info.and_then(|info| info.tx_attr.get());
        let rx = info.and_then(|info| info.rx_attr.get());
        Self {
            fid,
            ops,
            cm,
            msg,
            rma,
            tagged,
            atomic,
            collective: ptr::null(),
            domain,
            av: Cell::new(None),
            name: ProviderName { pid: std::process::id(), address },
            tx: Defaults::new(tx.map_or(0, |attr| attr.op_flags)),
            rx: Defaults::new(rx.map_or(0, |attr| attr.op_flags)),
            directed: info.is_some_and(|info| info.caps & flag::DIRECTED_RECV != 0),
            traffic: RefCell::new(traffic),
            joined: RefCell::default(),
        }
    }

    pub(super) const fn name(&self) -> ProviderName {
        self.name
    }

    /// Makes the domain's regions known at this endpoint.
    ///
    /// # Errors
    ///
    /// Those of [`Domain::attach`].
    pub(super) fn enter_domain(&self) -> Result<(), FiStatus> {
        self.domain.attach(self.kept_while_open().project(|this| this as &dyn OpenEndpoint))?;
        self.leave_at_end(self.domain.project(Domain::endpoints));
        Ok(())
    }

    /// Adds this endpoint to the list of an object that makes progress at it.
    pub(crate) fn join(&self, list: ObjectRef<EndpointList<Self>>) {
        list.attach(self.kept_while_open());
        self.leave_at_end(list);
    }

    /// Uses an address vector from now on.
    ///
    /// # Errors
    ///
    /// Those of [`Av::attach`].
    pub(crate) fn bind_av(&self, av: ObjectRef<Av>) -> Result<(), FiStatus> {
        self.av.set(Some(av));
        self.leave_at_end(av.project(Av::endpoints));
        av.attach(self.kept_while_open().project(|this| this as &dyn OpenEndpoint))
    }

    /// Reports the ends of operations to a queue from now on, of those that `flags` name.
    pub(crate) fn bind_queue(&self, entries: ObjectRef<CompletionEntries>, flags: u64) {
        let mut traffic = self.traffic.borrow_mut();
        let selective = flags & flag::SELECTIVE_COMPLETION != 0;
        if flags & flag::SEND != 0 {
            traffic.out.tx = Some(entries);
            self.tx.selective.set(selective);
        }
        if flags & flag::RECV != 0 {
            traffic.out.rx = Some(entries);
            self.rx.selective.set(selective);
        }
    }

    /// Counts the ends of operations from now on, of those that `flags` name.
    pub(crate) fn bind_counter(&self, counts: ObjectRef<TrafficCounts>, flags: u64) {
        for (kind, bound) in BOUND_BY {
            if flags & bound != 0 {
                self.traffic.borrow_mut().out.counters[kind as usize] = Some(counts);
            }
        }
    }

    /// Returns whether an address vector is bound.
    pub(crate) fn has_av(&self) -> bool {
        self.av.get().is_some()
    }

    /// Returns the flags of sends without flags of their own, or of receives.
    pub(crate) const fn op_flags(&self, is_send: bool) -> &Cell<u64> {
        if is_send { &self.tx.op_flags } else { &self.rx.op_flags }
    }

    /// Returns this endpoint, for the lists from which [`FidEp::drop`] removes it.
    fn kept_while_open(&self) -> ObjectRef<Self> {
        // SAFETY: an endpoint stays where `open` put it, and removes itself from all lists before
        // it closes.
        unsafe { ObjectRef::new(self) }
    }

    /// Notes a list from which this endpoint removes itself before it closes.
    fn leave_at_end<E: ?Sized + 'static>(&self, list: ObjectRef<EndpointList<E>>) {
        self.joined.borrow_mut().push(list.project(|list| list as &dyn Detach));
    }
}

impl OpenEndpoint for FidEp {
    fn meet(&self, number: u32) -> Result<(), FiStatus> {
        let met = self.traffic.borrow().port().meet(number);
        met.map_err(|error| failed(&error))
    }

    fn open_region(&self, key: u64, registered: &MrEntry) -> Result<(), Error> {
        let MrEntry { base, length, access } = *registered;
        self.traffic.borrow().port().open_region(regions::place(key), access, (base, length))
    }

    fn close_region(&self, key: u64) {
        let mut traffic = self.traffic.borrow_mut();
        traffic.port().close_region(regions::place(key));
        traffic.close_region(key);
    }
}

impl Drop for FidEp {
    fn drop(&mut self) {
        let _turn = self.enter();
        let this = ptr::from_ref(self).cast();
        self.joined.borrow().iter().for_each(|list| list.detach(this));
        self.traffic.borrow_mut().close();
    }
}
