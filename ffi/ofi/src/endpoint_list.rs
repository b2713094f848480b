//! The endpoints that an object of a domain serves, and an endpoint as the objects below it see it.

use core::cell::{Cell, RefCell};

use strait::Error;

use crate::abi::FiStatus;
use crate::object::ObjectRef;
use crate::regions::MrEntry;

/// An endpoint, as a domain and an address vector see it.
pub(crate) trait OpenEndpoint {
    /// Allows messages to and from the process with this number from now on.
    ///
    /// # Errors
    ///
    /// One of libfabric's: there is no way to the process.
    fn meet(&self, number: u32) -> Result<(), FiStatus>;

    /// Opens a region to peers.
    ///
    /// # Errors
    ///
    /// Fails when there is no room for the region.
    fn open_region(&self, key: u64, registered: &MrEntry) -> Result<(), Error>;

    /// Closes the region of this key to peers.
    fn close_region(&self, key: u64);
}

/// Endpoints in the order in which they were added, each once.
#[derive(Debug)]
pub(crate) struct EndpointList<E: ?Sized> {
    all: RefCell<Vec<ObjectRef<E>>>,
    /// The only endpoint, or `None` if there are several or none.
    only: Cell<Option<ObjectRef<E>>>,
}

/// A list from which an endpoint removes itself before it closes.
pub(crate) trait Detach {
    /// Removes the endpoint at this address.
    fn detach(&self, endpoint: *const ());
}

impl<E: ?Sized> Default for EndpointList<E> {
    fn default() -> Self {
        Self { all: RefCell::default(), only: Cell::new(None) }
    }
}

impl<E: ?Sized> EndpointList<E> {
    pub(crate) fn attach(&self, endpoint: ObjectRef<E>) {
        let mut all = self.all.borrow_mut();
        if !all.iter().any(|other| other.address() == endpoint.address()) {
            all.push(endpoint);
        }
        self.find_only(&all);
    }

    /// Calls `act` with each endpoint until it fails.
    pub(crate) fn try_each<F>(&self, act: impl FnMut(&E) -> Result<(), F>) -> Result<(), F> {
        self.all.borrow().iter().map(|endpoint| &**endpoint).try_for_each(act)
    }

    /// Calls `act` with each endpoint.
    pub(crate) fn each(&self, act: impl FnMut(&E)) {
        self.all.borrow().iter().map(|endpoint| &**endpoint).for_each(act);
    }

    /// Returns the only endpoint, or `None` if there are several or none.
    #[inline(always)]
    pub(crate) const fn only(&self) -> Option<ObjectRef<E>> {
        self.only.get()
    }

    fn find_only(&self, all: &[ObjectRef<E>]) {
        self.only.set(if let [only] = all { Some(*only) } else { None });
    }
}

impl<E: ?Sized> Detach for EndpointList<E> {
    fn detach(&self, endpoint: *const ()) {
        let mut all = self.all.borrow_mut();
        all.retain(|other| other.address() != endpoint);
        self.find_only(&all);
    }
}
