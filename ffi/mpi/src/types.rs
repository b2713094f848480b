//! The datatypes of the program, flat, by handle.
//!
//! A handle names another type as soon as its type is freed. An attribute of each type that we know
//! tells that: a host deletes it in the call that frees the type.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use core::ptr::null_mut;
use std::collections::HashMap;

use super::flat::FlatType;
use super::host;
use crate::abi::{self, Handle};
use crate::front::shared::Shared;

pub(crate) mod basic;
mod contents;

/// Number of places of the table of sizes: a power of two.
const PLACES: usize = 64;

/// Why a datatype cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TypeRefused {
    /// The program passes no datatype, or one that is not committed.
    Argument,
    /// A function of the host failed, and has reported it.
    Reported(c_int),
}

/// Datatypes that were used before.
pub(crate) struct TypeCache {
    /// Handles of types without gaps, with the size of an element.
    sizes: [Cell<(Handle, usize)>; PLACES],
    flat: RefCell<HashMap<Handle, Shared<FlatType>>>,
    pub(super) keyval: Cell<c_int>,
    /// A communicator in which errors are returned.
    pub(super) silent: Cell<Handle>,
}

impl Default for TypeCache {
    fn default() -> Self {
        Self {
            sizes: [const { Cell::new((0, 0)) }; PLACES],
            flat: RefCell::default(),
            keyval: Cell::new(0),
            silent: Cell::new(abi::comm_null()),
        }
    }
}

/// Returns the place of a handle in the table of sizes.
#[inline(always)]
const fn place(handle: Handle) -> usize {
    #[allow(clippy::unnecessary_cast, reason = "handles of some interfaces are narrower")]
    let bits = handle as usize;
    (bits ^ bits >> 6 ^ bits >> 12) % PLACES
}

impl TypeCache {
    /// Returns the size of an element of a type without gaps that is predefined, or was used.
    #[inline(always)]
    pub(crate) fn known_size(&self, datatype: Handle) -> Option<usize> {
        if let Some(size) = abi::builtin_size(datatype) {
            return Some(size);
        }
        let (handle, size) = self.sizes[place(datatype)].get();
        (handle == datatype).then_some(size)
    }

    /// Returns the datatype of `count` elements. Some hosts look at no datatype if there are none.
    pub(crate) fn find_for(
        &self,
        count: i64,
        datatype: Handle,
    ) -> Result<Shared<FlatType>, TypeRefused> {
        match self.find(datatype) {
            Err(TypeRefused::Argument) if count == 0 && abi::TAKES_NOTHING_OF_NO_TYPE => {
                Ok(Shared::new(FlatType::default()))
            }
            found => found,
        }
    }

    /// Returns a datatype.
    pub(crate) fn find(&self, datatype: Handle) -> Result<Shared<FlatType>, TypeRefused> {
        if let Some(flat) = self.flat.borrow().get(&datatype) {
            return Ok(Shared::clone(flat));
        }
        if !self.may_send(datatype) {
            return Err(TypeRefused::Argument);
        }
        let (flat, is_predefined) = contents::flatten(datatype).map_err(TypeRefused::Reported)?;
        let flat = Shared::new(flat);
        if is_predefined || self.will_hear_of(datatype) {
            if flat.is_contiguous() {
                self.sizes[place(datatype)].set((datatype, flat.size));
            }
            self.flat.borrow_mut().insert(datatype, Shared::clone(&flat));
        }
        Ok(flat)
    }

    /// Asks the host whether messages may have a datatype. A request to no process sends nothing.
    fn may_send(&self, datatype: Handle) -> bool {
        let (mut request, mut data) = (abi::request_null(), 0_u8);
        // SAFETY: the program passes a handle of the host's, which the host checks. It reads no
        // data for no process, and the result has a place.
        datatype != abi::datatype_null()
            && unsafe {
                let (at, silent) = ((&raw mut data).cast(), self.silent.get());
                host::Send_init(at, 1, datatype, abi::PROC_NULL, 0, silent, &raw mut request) == 0
                    && host::Request_free(&raw mut request) == 0
            }
    }

    /// Sets the attribute. Returns whether its deletion will be heard of.
    fn will_hear_of(&self, datatype: Handle) -> bool {
        // SAFETY: the handle was just used, so it names a type.
        unsafe { host::Type_set_attr(datatype, self.keyval.get(), null_mut()) == 0 }
    }

    pub(crate) fn forget(&self, datatype: Handle) {
        let at = &self.sizes[place(datatype)];
        if at.get().0 == datatype {
            at.set((0, 0));
        }
        self.flat.borrow_mut().remove(&datatype);
    }
}
