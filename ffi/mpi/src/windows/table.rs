//! The windows that are ours.

use core::cell::Cell;
use core::cell::RefCell;
use core::ffi::c_int;
use std::collections::HashMap;

use strait::Window;

use super::basic::BasicCache;
use super::refusal::WindowRefusal;
use crate::abi::{Handle, windows as abi};
use crate::front::shared::Shared;

/// What a window's program may do now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AccessEpoch {
    /// No operation.
    None,
    /// Operations at all members, since a fence.
    Fence,
    /// Operations at the members of a group, since `MPI_Win_start`.
    Group,
    /// Operations at this number of members, which are locked.
    Locks(u32),
    /// Operations at all members, since `MPI_Win_lock_all`.
    All,
}

/// A group of the host's, as it was at this number of freed groups: a handle may be used again.
pub(crate) struct NamedGroup {
    pub(crate) handle: Handle,
    pub(crate) freed: u64,
    pub(crate) places: Shared<Box<[u32]>>,
}

/// A window of ours.
pub(crate) struct Win {
    /// Of the carrier, which the program has.
    pub(crate) handle: Handle,
    pub(crate) window: Window<'static>,
    /// The members, a group of the host's.
    pub(crate) group: Handle,
    /// Bytes of one displacement at each member.
    pub(crate) units: Box<[usize]>,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
    pub(crate) access: Cell<AccessEpoch>,
    pub(crate) is_exposed: Cell<bool>,
    /// The group that the program named last, and its places in the window.
    pub(crate) named: RefCell<Option<NamedGroup>>,
    /// The targets that are locked, or those of the group.
    pub(crate) open: Box<[Cell<bool>]>,
}

impl Win {
    pub(crate) fn may_be_freed(&self) -> bool {
        let is_closed = matches!(self.access.get(), AccessEpoch::None | AccessEpoch::Fence);
        is_closed && !self.is_exposed.get()
    }

    pub(crate) fn is_dynamic(&self) -> bool {
        self.flavor == abi::WIN_FLAVOR_DYNAMIC
    }

    /// Returns the place of a rank, if an operation at it is allowed now.
    #[inline(always)]
    pub(crate) fn target(&self, rank: c_int) -> Result<u32, WindowRefusal> {
        let Some(open) = self.open.get(rank as usize) else {
            return Err(WindowRefusal::Class(crate::abi::ERR_RANK));
        };
        let is_allowed = match self.access.get() {
            AccessEpoch::Fence | AccessEpoch::All => true,
            AccessEpoch::None => false,
            AccessEpoch::Group | AccessEpoch::Locks(_) => open.get(),
        };
        if is_allowed { Ok(rank as u32) } else { Err(WindowRefusal::Class(abi::ERR_RMA_SYNC)) }
    }

    /// Returns the place of a rank that is locked.
    #[inline(always)]
    pub(crate) fn locked(&self, rank: c_int) -> Result<u32, WindowRefusal> {
        if matches!(self.access.get(), AccessEpoch::Locks(_) | AccessEpoch::All) {
            return self.target(rank);
        }
        Err(WindowRefusal::Class(abi::ERR_RMA_SYNC))
    }

    pub(crate) fn all_locked(&self) -> Result<(), WindowRefusal> {
        let is_passive = matches!(self.access.get(), AccessEpoch::Locks(_) | AccessEpoch::All);
        if is_passive { Ok(()) } else { Err(WindowRefusal::Class(abi::ERR_RMA_SYNC)) }
    }
}

/// The windows of ours, by handle.
#[derive(Default)]
pub(crate) struct WinTable {
    pub(crate) basics: BasicCache,
    latest: RefCell<Option<Shared<Win>>>,
    all: RefCell<HashMap<Handle, Shared<Win>>>,
}

impl WinTable {
    /// Returns the window of a handle, if it is ours.
    #[inline(always)]
    pub(crate) fn find(&self, handle: Handle) -> Option<Shared<Win>> {
        if let Some(win) = &*self.latest.borrow()
            && win.handle == handle
        {
            return Some(Shared::clone(win));
        }
        self.find_other(handle)
    }

    #[inline(never)]
    fn find_other(&self, handle: Handle) -> Option<Shared<Win>> {
        let found = self.all.borrow().get(&handle).cloned()?;
        *self.latest.borrow_mut() = Some(Shared::clone(&found));
        Some(found)
    }

    pub(crate) fn add(&self, win: Win) {
        self.all.borrow_mut().insert(win.handle, Shared::new(win));
    }

    /// Forgets a window that the host has freed. Its handle may be another's already.
    pub(crate) fn remove(&self, win: &Shared<Win>) {
        *self.latest.borrow_mut() = None;
        let mut all = self.all.borrow_mut();
        if all.get(&win.handle).is_some_and(|found| found.is_same(win)) {
            all.remove(&win.handle);
        }
    }

    /// Forgets all windows: the program did not free them, and ends.
    pub(crate) fn clear(&self) {
        *self.latest.borrow_mut() = None;
        self.all.borrow_mut().clear();
    }
}
